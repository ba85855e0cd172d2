#include "energon/process/fork_server.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/process/fork.h"
#include "energon/process/fork_server_loop.h"
#include "energon/process/os_error.h"
#include "energon/process/shared_memory.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr std::chrono::seconds kServerEndsWithin{1};

constexpr std::chrono::milliseconds kLongestGrace{std::numeric_limits<std::int32_t>::max()};

ProcessEnd end_of(const Frame& frame) {
  return {static_cast<ProcessEnd::Kind>(frame.end_kind), frame.value};
}

/// The Error that a worker reported at its end. nullopt if there is none or if it is damaged: the
/// exit status then says more.
std::optional<Error> error_in(std::string_view last_words) {
  if (last_words.empty()) {
    return std::nullopt;
  }
  try {
    return decode_error(last_words);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool wait_ended(const WorkerProcess& worker, Deadline deadline, WaitCheck* check) {
  std::array<Waitable, 1> waitables{{{worker.fd()}}};
  return wait_any(waitables, deadline, check);
}

Error still_runs(const WorkerProcess& worker) {
  return Error(ErrorCode::kTimeout,
               fmt::format("worker process {} is still running", worker.process.pid()),
               {.worker = worker.worker_id});
}

/// The message about a fork server that is alive but does not answer.
std::string no_answer(pid_t server, std::string_view answer) {
  return fmt::format(
      "the fork server (pid {}) did not report {} in time: it may be stopped (SIGSTOP), swapped "
      "out or short of CPU time",
      server, answer);
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
  } catch (const Error&) {  // a destructor cannot report errors
  }
}

WorkerProcess ForkServer::spawn(const SpawnRequest& request, Deadline deadline, WaitCheck* check) {
  owner_.check("a fork server");
  if (request.descriptors.size() > kMaxFrameDescriptors) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} descriptors for a worker, expected at most {}",
                            request.descriptors.size(), kMaxFrameDescriptors));
  }
  const MutexLock lock(mutex_);
  if (alive()) {
    oom_kills_.mark();  // earlier kills did not end this worker
  }
  const std::uint64_t number = ++requests_;
  ends_.emplace(number, std::nullopt);
  try {
    send_request(request, number, deadline, check);
    return await_start(request, number, deadline, check);
  } catch (...) {
    ends_.erase(number);  // the worker may still start, but nobody will query its end
    throw;
  }
}

WorkerProcess ForkServer::await_start(const SpawnRequest& request, std::uint64_t number,
                                      Deadline deadline, WaitCheck* check) {
  for (;;) {
    ReceivedFrame received;
    switch (receive(received, deadline, check)) {
      case SocketStatus::kWouldBlock:
        throw Error(ErrorCode::kTimeout, no_answer(pid(), "the start of the worker"),
                    {.worker = request.worker_id});
      case SocketStatus::kGone:
        throw server_gone(request.worker_id);
      case SocketStatus::kDone:
        break;
    }
    if (received.frame.request == number) {
      if (std::optional<WorkerProcess> worker = started_worker(request, received)) {
        return std::move(*worker);
      }
    }
  }
}

/// The worker that `answer`, a frame about `request`, reports as started; nullopt if it is not yet
/// started. Throws Error if the start failed or the worker has ended.
std::optional<WorkerProcess> ForkServer::started_worker(const SpawnRequest& request,
                                                        ReceivedFrame& answer) {
  const Frame& frame = answer.frame;
  if (frame.kind == FrameKind::kSpawnFailed) {
    const Error reason = decode_error(as_text(answer.chunk));
    throw Error(reason.code(), fmt::format("cannot start a worker process: {}", reason.message()),
                reason.context())
        .with({.worker = request.worker_id})
        .with_detail(std::string(reason.detail()));
  }
  if (frame.kind == FrameKind::kSpawned && answer.descriptors.size() == 1) {
    return WorkerProcess{request.worker_id, request.generation, frame.request,
                         ProcessHandle(frame.pid, std::move(answer.descriptors.front()))};
  }
  if (answer.lost_descriptors) {
    throw os_error("cannot take a descriptor of the worker", EMFILE)
        .with({.worker = request.worker_id});
  }
  if (const std::optional<Ended>& ended = ends_.at(frame.request)) {
    throw Error(ErrorCode::kWorkerDied, "the worker " + ended->end.describe() + " during its start",
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
          throw Error(ErrorCode::kTimeout, no_answer(pid(), "that it took the request"),
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

/// Receives the next frame, and records the end of a worker if the frame reports one. Returns
/// kWouldBlock at the deadline, and kGone if the fork server is gone and no frame is left.
SocketStatus ForkServer::receive(ReceivedFrame& received, Deadline deadline, WaitCheck* check) {
  for (;;) {
    const bool gone = stopped_ || !alive();  // read first, so that no frame can arrive later
    const SocketStatus status = receive_frame(socket_.get(), received);
    if (status == SocketStatus::kDone) {
      const auto worker = ends_.find(received.frame.request);
      if (received.frame.kind == FrameKind::kExited && worker != ends_.end()) {
        worker->second = {end_of(received.frame), error_in(as_text(received.chunk))};
      }
      return status;
    }
    if (gone || status == SocketStatus::kGone) {
      return SocketStatus::kGone;
    }
    std::array<Waitable, 2> waitables{{{socket_.get()}, {fd()}}};
    if (!wait_any(waitables, deadline, check)) {
      return SocketStatus::kWouldBlock;
    }
  }
}

/// The report on the end of `worker`, which has ended; nullptr if the fork server does not send it
/// by the deadline.
const ForkServer::Ended* ForkServer::report_on(const WorkerProcess& worker, Deadline deadline,
                                               WaitCheck* check) {
  std::optional<Ended>& ended = ends_.at(worker.request);
  while (!ended) {
    ReceivedFrame received;
    switch (receive(received, deadline, check)) {
      case SocketStatus::kDone:
        break;
      case SocketStatus::kWouldBlock:
        return nullptr;
      case SocketStatus::kGone:
        // If this process is the subreaper of the fork server, the worker is ours to reap.
        ended = Ended{worker.process.reap().value_or(ProcessEnd{})};
        break;
    }
  }
  return &*ended;
}

ProcessEnd ForkServer::exit_of(const WorkerProcess& worker, Deadline deadline, WaitCheck* check) {
  owner_.check("a fork server");
  if (!wait_ended(worker, deadline, check)) {
    throw still_runs(worker);
  }
  const MutexLock lock(mutex_);
  const Ended* const ended = report_on(worker, deadline, check);
  if (ended == nullptr) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("worker process {} has ended, but {}", worker.process.pid(),
                            no_answer(pid(), "how")),
                {.worker = worker.worker_id});
  }
  return ended->end;
}

Error ForkServer::death_of(const WorkerProcess& worker, Deadline deadline, const EndDetail& detail,
                           WaitCheck* check) {
  owner_.check("a fork server");
  const bool has_ended = wait_ended(worker, deadline, check);
  if (!has_ended && alive()) {
    throw still_runs(worker);
  }
  const MutexLock lock(mutex_);
  const Ended* const ended = has_ended ? report_on(worker, deadline, check) : nullptr;
  const ProcessEnd end = ended != nullptr ? ended->end : ProcessEnd{};
  const ProcessEnd without_server{.kind = ProcessEnd::Kind::kExited, .value = kExitParentGone};
  if (!alive() && (end.kind == ProcessEnd::Kind::kUnknown || end == without_server)) {
    return server_gone(worker.worker_id);
  }
  if (ended != nullptr && ended->thrown) {
    const Error& thrown = *ended->thrown;
    return Error(thrown.code(),
                 fmt::format("worker {} (pid {}, generation {}) gave up: {}", worker.worker_id,
                             worker.process.pid(), worker.generation, thrown.message()),
                 thrown.context())
        .with({.worker = worker.worker_id})
        .with_detail(std::string(thrown.detail()));
  }
  const std::string note = ended != nullptr ? note_of(end) : no_answer(pid(), "how");
  std::string text = detail ? detail(end) : std::string();
  if (!note.empty()) {
    text += (text.empty() ? "" : "; ") + note;
  }
  return worker_died(worker, end, text);
}

void ForkServer::forget(const WorkerProcess& worker) {
  if (owner_.is_current()) {
    const MutexLock lock(mutex_);
    ends_.erase(worker.request);
  }
}

/// The error of every call after the end of the fork server.
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
               text + ", as are its workers; make a new loader and restore the last state",
               {.worker = worker_id});
}

/// A note on the cause of `end`, or "" if the cause is unknown.
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
  // If the message cannot be sent, the end of the lifeline has the same effect.
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

// --- Lifeline and ParentWatch ---

Lifeline Lifeline::open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw os_error("cannot make a pipe", errno);
  }
  Lifeline lifeline{UniqueFd(), UniqueFd(ends[0]), UniqueFd(ends[1])};
  UniqueFd pidfd(::fcntl(ProcessHandle::open(::getpid()).fd(), F_DUPFD_CLOEXEC, 0));
  if (!pidfd.valid()) {
    throw os_error("cannot duplicate a pidfd", errno);
  }
  lifeline.parent_pidfd = std::move(pidfd);
  return lifeline;
}

bool ParentWatch::gone() const { return any_ready(descriptors_); }

void ParentWatch::exit_when_gone() const {
  try {
    std::vector<Waitable> waitables;
    for (const int fd : descriptors_) {
      waitables.push_back({fd});
    }
    wait_any(waitables, kNever);
  } catch (...) {  // user code closed our descriptors, so a dead parent would go unnoticed
  }
  ::_exit(kExitParentGone);
}

void ParentWatch::start_exit_thread() const {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the thread
  int failed = 0;
  try {
    std::thread([this] { exit_when_gone(); }).detach();
  } catch (const std::system_error& error) {
    failed = error.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    throw os_error("cannot start the watchdog thread", failed);
  }
}

// --- OomKills ---

namespace {

/// The value of `oom_kill` in a file of lines "name value".
std::optional<std::uint64_t> count_in(const std::string& file) {
  std::ifstream lines(file);
  std::string name;
  for (std::uint64_t value = 0; lines >> name >> value;) {
    if (name == "oom_kill") {
      return value;
    }
  }
  return std::nullopt;
}

/// Files that may have the count. In a container, the path of the group may be that of the host,
/// while its files are at the mount point.
std::vector<std::string> candidates(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::vector<std::string> files;
  std::ifstream groups(root + "/proc/self/cgroup");  // lines "number:controllers:path"
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);
    std::string number;
    std::string controllers;
    std::string path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (path == "/") {
      path.clear();
    }
    if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      for (const std::string& group : {path, std::string()}) {
        files.push_back(mounts + "/memory" + group + "/memory.oom_control");
      }
    } else if (number == "0" && controllers.empty()) {
      for (const std::string& group : {path, "/unified" + path, std::string()}) {
        files.push_back(mounts + group + "/memory.events");
      }
    }
  }
  return files;
}

}  // namespace

OomKills::OomKills(const std::string& root) {
  for (const std::string& file : candidates(root == "/" ? "" : root)) {
    if (count_in(file)) {
      file_ = file;
      break;
    }
  }
  mark();
}

void OomKills::mark() {
  if (!file_.empty()) {
    marked_ = count_in(file_).value_or(marked_);
  }
}

std::uint64_t OomKills::since_mark() const {
  const std::uint64_t now = file_.empty() ? marked_ : count_in(file_).value_or(marked_);
  return now > marked_ ? now - marked_ : 0;
}

}  // namespace energon
