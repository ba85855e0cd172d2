#include "energon/process/fork_server_loop.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "energon/process/fail_point.h"
#include "energon/process/fork.h"
#include "energon/process/os_error.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr std::chrono::seconds kKilledWorkersEndWithin{2};

}  // namespace

ForkServerLoop::ForkServerLoop(const WorkerMain& main, int socket,
                               std::vector<int> parent_descriptors,
                               const ForkServerOptions& options)
    : main_(main),
      socket_(socket),
      options_(options),
      self_(ProcessHandle::open(::getpid())),
      watch_(std::move(parent_descriptors)) {}

int ForkServerLoop::run() {
  for (;;) {
    wait();
    if (watch_.gone() || !receive_all()) {
      kill_all();
      return kExitParentGone;
    }
    reap_ended();
    flush();
    if (stopping_ && std::chrono::steady_clock::now() >= kill_at_) {
      kill_all();
      flush();
    }
    if (stopping_ && workers_.empty()) {
      return 0;
    }
  }
}

void ForkServerLoop::wait() {
  std::vector<Waitable> waitables{{socket_}};
  for (const int fd : watch_.descriptors()) {
    waitables.push_back({fd});
  }
  for (const auto& [request, worker] : workers_) {
    waitables.push_back({worker.process.fd()});
  }
  if (!replies_.empty()) {
    waitables.push_back({.fd = socket_, .until_writable = true});
  }
  wait_any(waitables, kill_at_);
}

/// False: the parent closed its end.
bool ForkServerLoop::receive_all() {
  for (;;) {
    ReceivedFrame received;
    switch (receive_frame(socket_, received)) {
      case SocketStatus::kDone:
        handle(std::move(received));
        break;
      case SocketStatus::kWouldBlock:
        return true;
      case SocketStatus::kGone:
        return false;
    }
  }
}

// Whatever fails, the request failed, and the fork server goes on: its workers depend on it.
void ForkServerLoop::handle(ReceivedFrame received) {
  const Frame frame = received.frame;
  try {
    take(std::move(received));
  } catch (...) {
    pending_.reset();
    refuse(frame, to_error(std::current_exception(), "a fork hook"));
  }
}

void ForkServerLoop::refuse(Frame frame, const Error& error) {
  frame.kind = FrameKind::kSpawnFailed;
  replies_.push_back({.frame = frame, .message = encode_error(error, kMaxChunkBytes)});
}

void ForkServerLoop::take(ReceivedFrame received) {
  const Frame& frame = received.frame;
  switch (frame.kind) {
    case FrameKind::kSpawn:
      if (received.lost_descriptors) {
        throw os_error("cannot take its descriptors", EMFILE);
      }
      pending_ = Request{frame, {}, std::move(received.descriptors)};
      break;
    case FrameKind::kChunk:
      if (!pending_ || pending_->frame.request != frame.request) {
        return;  // of a request that was refused or given up
      }
      pending_->payload.insert(pending_->payload.end(), received.chunk.begin(),
                               received.chunk.end());
      break;
    case FrameKind::kStop:
      stopping_ = true;
      kill_at_ = deadline_after(std::chrono::milliseconds(frame.value));
      return;
    case FrameKind::kSpawned:
    case FrameKind::kSpawnFailed:
    case FrameKind::kExited:
      return;  // ours to send
  }
  if (pending_->payload.size() >= pending_->frame.payload_bytes) {
    spawn();
    pending_.reset();
  }
}

void ForkServerLoop::spawn() {
  Frame reply = pending_->frame;
  reply.kind = FrameKind::kSpawned;
  ForkOptions options{.keep = options_.keep_descriptors,
                      .process_name = fmt::format("energon-w{}", reply.worker_id),
                      .hooks = options_.hooks};
  options.keep.push_back(self_.fd());
  for (const int fd : watch_.descriptors()) {
    options.keep.push_back(fd);
  }
  for (const UniqueFd& fd : pending_->descriptors) {
    options.keep.push_back(fd.get());
  }
  // All that takes memory comes before the fork, so that no process is left that nobody knows of.
  replies_.push_back({.frame = reply});
  try {
    Worker& worker =
        workers_.emplace(reply.request, Worker{reply, {}, LastWords::open()}).first->second;
    options.keep.push_back(worker.last_words.writing_fd());
    worker.process = fork_child([&] { return run_worker(*pending_, worker.last_words); }, options);
    worker.last_words.close_writing();
    replies_.back().frame.pid = worker.process.pid();
    replies_.back().pidfd = worker.process.fd();
  } catch (...) {
    workers_.erase(reply.request);
    replies_.pop_back();
    throw;
  }
}

int ForkServerLoop::run_worker(Request& request, const LastWords& last_words) {
  std::vector<int> must_live(watch_.descriptors().begin(), watch_.descriptors().end());
  must_live.push_back(self_.fd());
  const ParentWatch watch(std::move(must_live));
  int code = kExitException;
  try {
    watch.start_exit_thread();
    ENERGON_FAIL_POINT("worker.init");
    WorkerStart start{.worker_id = request.frame.worker_id,
                      .generation = request.frame.generation,
                      .payload = request.payload,
                      .descriptors = std::move(request.descriptors),
                      .watch = &watch};
    code = main_(start);
  } catch (...) {
    last_words.say(std::current_exception());
  }
  ::_exit(code);  // here, while `watch` still lives
}

void ForkServerLoop::reap_ended() {
  for (auto worker = workers_.begin(); worker != workers_.end();) {
    const std::optional<ProcessEnd> end = worker->second.process.reap();
    if (!end) {
      ++worker;
      continue;
    }
    Frame reply = worker->second.frame;
    reply.kind = FrameKind::kExited;
    reply.value = end->value;
    reply.end_kind = static_cast<std::uint32_t>(end->kind);
    // A kSpawned that waits must still find its pidfd open; a pidfd stays good after the reaping.
    flush();
    for (Reply& waiting : replies_) {
      if (waiting.pidfd == worker->second.process.fd()) {
        waiting.pidfd = UniqueFd::kInvalid;
      }
    }
    replies_.push_back({.frame = reply, .message = worker->second.last_words.heard()});
    worker = workers_.erase(worker);
  }
}

void ForkServerLoop::flush() {
  while (!replies_.empty()) {
    const Reply& reply = replies_.front();
    std::vector<int> descriptors;
    if (reply.pidfd != UniqueFd::kInvalid) {
      descriptors.push_back(reply.pidfd);
    }
    if (send_frame(socket_, reply.frame, as_bytes(reply.message), descriptors) ==
        SocketStatus::kWouldBlock) {
      return;
    }
    replies_.pop_front();  // sent, or there is nobody to tell
  }
}

void ForkServerLoop::kill_all() {
  for (const auto& [request, worker] : workers_) {
    worker.process.send_signal(SIGKILL);
  }
  const Deadline deadline = deadline_after(kKilledWorkersEndWithin);  // one may hang in the kernel
  for (const auto& [request, worker] : workers_) {
    worker.process.wait_ended(deadline);
  }
  reap_ended();
  workers_.clear();
}

}  // namespace energon
