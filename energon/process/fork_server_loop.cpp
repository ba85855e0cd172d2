#include "energon/process/fork_server_loop.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "energon/process/fail_point.h"
#include "energon/process/fork.h"
#include "energon/process/os_error.h"
#include "io/error.h"

namespace energon {

// --- Frames ---

namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(kMaxFrameDescriptors * sizeof(int));

struct alignas(cmsghdr) ControlBuffer {
  std::array<char, kControlBytes> bytes{};
};

SocketStatus status_of(int error_number, const char* operation) {
  if (error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == ENOBUFS) {
    return SocketStatus::kWouldBlock;
  }
  if (error_number == EPIPE || error_number == ECONNRESET || error_number == ENOTCONN) {
    return SocketStatus::kGone;
  }
  throw os_error(operation, error_number);
}

void attach_descriptors(msghdr& message, ControlBuffer& control, std::span<const int> descriptors) {
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

std::vector<UniqueFd> take_descriptors(msghdr& message) {
  std::vector<UniqueFd> result;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = UniqueFd::kInvalid;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
      result.emplace_back(fd);
    }
  }
  return result;
}

}  // namespace

SocketPair SocketPair::open() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw os_error("cannot make a socket pair", errno);
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

SocketStatus send_frame(int socket, const Frame& frame, ByteView chunk,
                        std::span<const int> descriptors) {
  std::array<iovec, 2> parts{{{const_cast<Frame*>(&frame), sizeof(frame)},
                              {const_cast<std::byte*>(chunk.data()), chunk.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = chunk.empty() ? 1 : 2;
  ControlBuffer control;
  if (!descriptors.empty()) {
    attach_descriptors(message, control, descriptors);
  }
  while (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) {
      return status_of(errno, "cannot send to the other side of the fork server's socket");
    }
  }
  return SocketStatus::kDone;
}

SocketStatus receive_frame(int socket, ReceivedFrame& received) {
  received = {};
  received.chunk.resize(kMaxChunkBytes);
  std::array<iovec, 2> parts{
      {{&received.frame, sizeof(received.frame)}, {received.chunk.data(), received.chunk.size()}}};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t count = 0;
  while ((count = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
    if (errno != EINTR) {
      return status_of(errno, "cannot receive from the fork server's socket");
    }
  }
  if (count == 0) {
    return SocketStatus::kGone;
  }
  received.descriptors = take_descriptors(message);
  received.lost_descriptors = (message.msg_flags & MSG_CTRUNC) != 0;
  if (static_cast<std::size_t>(count) < sizeof(Frame) || received.frame.magic != kFrameMagic ||
      (message.msg_flags & MSG_TRUNC) != 0) {
    throw Error(ErrorCode::kInternal, "invalid frame on the fork server's socket");
  }
  received.chunk.resize(static_cast<std::size_t>(count) - sizeof(Frame));
  return SocketStatus::kDone;
}

// --- ExitReport ---

ExitReport ExitReport::open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw os_error("cannot make a pipe", errno);
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void ExitReport::say(const std::exception_ptr& why) const noexcept {
  try {
    const std::string words =
        encode_error(to_error(why, "its main function", ErrorCode::kInternal), kExitReportBytes);
    while (::write(writing_.get(), words.data(), words.size()) < 0 && errno == EINTR) {
    }
  } catch (...) {  // out of memory: the exit code must suffice
  }
}

std::string ExitReport::heard() const {
  std::string words(kExitReportBytes, '\0');
  ssize_t count = 0;
  while ((count = ::read(reading_.get(), words.data(), words.size())) < 0 && errno == EINTR) {
  }
  words.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return words;
}

namespace {

constexpr std::chrono::seconds kKilledWorkersEndWithin{2};

}  // namespace

// --- ForkServerLoop ---

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

/// Returns false if the parent closed its end.
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

// Any failure fails only the request. The fork server continues, since its workers depend on it.
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
  // Allocate everything before the fork, so that no failure can leave an unknown process.
  replies_.push_back({.frame = reply});
  try {
    Worker& worker =
        workers_.emplace(reply.request, Worker{reply, {}, ExitReport::open()}).first->second;
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

int ForkServerLoop::run_worker(Request& request, const ExitReport& last_words) {
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
    // A pending kSpawned still needs its pidfd, which stays valid after the reaping.
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
    replies_.pop_front();  // sent, or the parent is gone
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
