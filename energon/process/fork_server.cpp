#include "energon/process/fork_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "energon/process/fork.h"
#include "energon/process/fork_protocol.h"
#include "energon/process/fork_server_loop.h"
#include "energon/process/last_words.h"
#include "energon/process/os_error.h"
#include "energon/process/shared_memory.h"

namespace energon {
namespace {

constexpr std::chrono::seconds kServerEndsWithin{1};
constexpr std::chrono::seconds kReportComesWithin{10};  // while the server is alive

constexpr std::chrono::milliseconds kLongestGrace{std::numeric_limits<std::int32_t>::max()};

ProcessEnd end_of(const Frame& frame) {
  return {static_cast<ProcessEnd::Kind>(frame.end_kind), frame.value};
}

}  // namespace

ForkServer::ForkServer(WorkerMain main, ForkServerOptions options)
    : options_(std::move(options)), lifeline_(Lifeline::open()), oom_kills_(options_.system_root) {
  SocketPair sockets = SocketPair::open();
  const std::vector<int> watched{lifeline_.parent_pidfd.get(), lifeline_.read_end.get()};
  ForkOptions fork_options{
      .keep = options_.keep_descriptors, .process_name = "energon-fork", .hooks = options_.hooks};
  fork_options.keep.insert(fork_options.keep.end(), watched.begin(), watched.end());
  fork_options.keep.push_back(sockets.server.get());
  server_ = fork_child(
      [&] {
        SharedMemory::abandon_inherited();
        return ForkServerLoop(main, sockets.server.get(), watched, options_).run();
      },
      fork_options);
  socket_ = std::move(sockets.parent);
  // Only the children watch these.
  lifeline_.parent_pidfd.reset();
  lifeline_.read_end.reset();
}

ForkServer::~ForkServer() {
  try {
    stop(options_.stop_grace);
  } catch (const Error&) {  // a destructor cannot report it
  }
}

WorkerProcess ForkServer::spawn(const SpawnRequest& request, Deadline deadline, WaitCheck* check) {
  owner_.check("a fork server");
  if (request.descriptors.size() > kMaxFrameDescriptors) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} descriptors for a worker, at most {} can be passed",
                            request.descriptors.size(), kMaxFrameDescriptors));
  }
  const MutexLock lock(mutex_);
  if (alive()) {
    oom_kills_.mark();  // earlier kills did not end this worker
  }
  const std::uint64_t number = ++requests_;
  send_request(request, number, deadline, check);
  for (;;) {
    const auto received = receive(deadline, check);
    if (received == nullptr) {
      throw Error(ErrorCode::kTimeout, "the fork server did not start the worker in time",
                  {.worker = request.worker_id});
    }
    if (received->frame.request == number) {
      if (std::optional<WorkerProcess> worker = started_worker(request, *received)) {
        return std::move(*worker);
      }
    }
  }
}

/// The worker that `answer`, a frame about `request`, reports as started; nothing if it reports
/// nothing yet. Throws Error if the worker was not started or has ended.
std::optional<WorkerProcess> ForkServer::started_worker(const SpawnRequest& request,
                                                        ReceivedFrame& answer) {
  const Frame& frame = answer.frame;
  if (frame.kind == FrameKind::kSpawnFailed) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("cannot start a worker process: {}", as_text(answer.chunk)),
                {.worker = request.worker_id});
  }
  if (frame.kind == FrameKind::kSpawned && answer.descriptors.size() == 1) {
    return WorkerProcess{request.worker_id, request.generation, frame.request,
                         ProcessHandle(frame.pid, std::move(answer.descriptors.front()))};
  }
  if (answer.lost_descriptors) {
    throw os_error("cannot take a descriptor of the worker", EMFILE)
        .with({.worker = request.worker_id});
  }
  if (const auto ended = ends_.find(frame.request); ended != ends_.end()) {
    throw Error(ErrorCode::kWorkerDied,
                "the worker " + ended->second.end.describe() + " while it was started",
                {.worker = request.worker_id});
  }
  return std::nullopt;
}

void ForkServer::send_request(const SpawnRequest& request, std::uint64_t number, Deadline deadline,
                              WaitCheck* check) {
  Frame frame;
  frame.kind = FrameKind::kSpawn;
  frame.request = number;
  frame.generation = request.generation;
  frame.payload_bytes = request.payload.size();
  frame.worker_id = request.worker_id;
  std::span<const int> descriptors = request.descriptors;
  ByteView rest = request.payload;
  ByteView chunk;
  for (;;) {
    switch (stopped_ ? SocketStatus::kGone : send_frame(socket_.get(), frame, chunk, descriptors)) {
      case SocketStatus::kGone:
        throw server_gone(request.worker_id);
      case SocketStatus::kWouldBlock: {
        std::array<Waitable, 2> waitables{{{.fd = socket_.get(), .until_writable = true}, {fd()}}};
        if (!wait_any(waitables, deadline, check)) {
          throw Error(ErrorCode::kTimeout, "the fork server did not take the request in time",
                      {.worker = request.worker_id});
        }
        continue;
      }
      case SocketStatus::kDone:
        break;
    }
    if (rest.empty()) {
      return;
    }
    frame.kind = FrameKind::kChunk;
    descriptors = {};
    chunk = rest.first(std::min(rest.size(), kMaxChunkBytes));
    rest = rest.subspan(chunk.size());
  }
}

/// The next frame; nullptr at the deadline. Throws what `check`, if any, throws. Records the ends
/// of workers that it reads about.
std::unique_ptr<ReceivedFrame> ForkServer::receive(Deadline deadline, WaitCheck* check) {
  auto received = std::make_unique<ReceivedFrame>();
  for (;;) {
    const bool gone = stopped_ || !alive();  // read first: then no frame can follow what is there
    const SocketStatus status = receive_frame(socket_.get(), *received);
    if (status == SocketStatus::kDone) {
      if (received->frame.kind == FrameKind::kExited) {
        ends_[received->frame.request] = {end_of(received->frame),
                                          decode_last_words(as_text(received->chunk))};
      }
      return received;
    }
    if (gone || status == SocketStatus::kGone) {
      throw server_gone(received->frame.worker_id);
    }
    std::array<Waitable, 2> waitables{{{socket_.get()}, {fd()}}};
    if (!wait_any(waitables, deadline, check)) {
      return nullptr;
    }
  }
}

ProcessEnd ForkServer::exit_of(const WorkerProcess& worker, Deadline deadline) {
  owner_.check("a fork server");
  if (!worker.process.wait_ended(deadline)) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("worker process {} still runs", worker.process.pid()),
                {.worker = worker.worker_id});
  }
  const MutexLock lock(mutex_);
  const Deadline report_by = deadline_after(kReportComesWithin);
  try {
    while (ends_.count(worker.request) == 0 && receive(report_by) != nullptr) {
    }
  } catch (const Error&) {
    // The fork server died first. If this process is its subreaper, the worker is ours to reap.
    if (const std::optional<ProcessEnd> end = worker.process.reap()) {
      ends_.try_emplace(worker.request, Ended{*end});
    }
  }
  const auto found = ends_.find(worker.request);
  return found != ends_.end() ? found->second.end : ProcessEnd{};
}

Error ForkServer::death_of(const WorkerProcess& worker, Deadline deadline,
                           const EndDetail& detail) {
  ProcessEnd end;
  try {
    end = exit_of(worker, deadline);
  } catch (const Error&) {
    if (alive() || !owner_.is_current()) {
      throw;
    }
  }
  const MutexLock lock(mutex_);
  const ProcessEnd without_server{.kind = ProcessEnd::Kind::kExited, .value = kExitParentGone};
  if (!alive() && (end.kind == ProcessEnd::Kind::kUnknown || end == without_server)) {
    return server_gone(worker.worker_id);
  }
  const auto found = ends_.find(worker.request);
  if (found != ends_.end() && found->second.thrown) {
    const Error& thrown = *found->second.thrown;
    return Error(thrown.code(),
                 fmt::format("worker {} (pid {}, generation {}) gave up: {}", worker.worker_id,
                             worker.process.pid(), worker.generation, thrown.message()),
                 {.worker = worker.worker_id});
  }
  const std::string note = note_of(end);
  std::string text = detail ? detail(end) : std::string();
  if (!note.empty()) {
    text += (text.empty() ? "" : "; ") + note;
  }
  return worker_died(worker, end, text);
}

/// The error of every call after the fork server ended.
Error ForkServer::server_gone(int worker_id) {
  if (!stopped_ && !server_end_ && server_.wait_ended(deadline_after(kServerEndsWithin))) {
    server_end_ = server_.reap();
  }
  std::string text = "the fork server is gone";
  if (server_end_) {
    text += fmt::format(" (pid {}, {})", server_.pid(), server_end_->describe());
    if (const std::string note = note_of(*server_end_); !note.empty()) {
      text += "; " + note;
    }
  }
  return Error(ErrorCode::kWorkerDied,
               text + ", and its workers with it; make a new loader and restore the last state",
               {.worker = worker_id});
}

/// A note on the cause of `end`; empty if nothing is known.
std::string ForkServer::note_of(const ProcessEnd& end) const {
  if (end != ProcessEnd{.kind = ProcessEnd::Kind::kKilled, .value = SIGKILL}) {
    return {};
  }
  const std::uint64_t kills = oom_kills_.since_mark();
  return kills == 0 ? std::string()
                    : fmt::format(
                          "the kernel's out-of-memory killer ended {} process{} of this control "
                          "group meanwhile ({}): use fewer workers, smaller batches or buffers, "
                          "or raise the memory limit",
                          kills, kills == 1 ? "" : "es", oom_kills_.file());
}

void ForkServer::stop(std::chrono::milliseconds grace) {
  if (!owner_.is_current()) {
    return;
  }
  const MutexLock lock(mutex_);
  if (stopped_) {
    return;
  }
  stopped_ = true;
  grace = std::min(grace, kLongestGrace);
  Frame frame;
  frame.kind = FrameKind::kStop;
  frame.value = static_cast<std::int32_t>(grace.count());
  // If the message cannot be sent, the end of the lifeline says the same.
  if (alive() && send_frame(socket_.get(), frame, {}, {}) != SocketStatus::kDone) {
    lifeline_.write_end.reset();
  }
  if (!server_.wait_ended(deadline_after(grace + kServerEndsWithin))) {
    server_.send_signal(SIGKILL);  // its workers notice its end, and exit
    server_.wait_ended(deadline_after(kServerEndsWithin));
  }
  server_.reap();
  lifeline_.write_end.reset();
}

Error worker_died(const WorkerProcess& worker, const ProcessEnd& end, std::string_view detail) {
  std::string text = fmt::format("worker {} (pid {}, generation {}) {}", worker.worker_id,
                                 worker.process.pid(), worker.generation, end.describe());
  if (!detail.empty()) {
    text += fmt::format("; {}", detail);
  }
  return Error(ErrorCode::kWorkerDied, std::move(text), {.worker = worker.worker_id});
}

}  // namespace energon
