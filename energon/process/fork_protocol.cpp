#include "energon/process/fork_protocol.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "energon/process/os_error.h"

namespace energon {
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
    throw Error(ErrorCode::kInternal, "the fork server's socket carried something else");
  }
  received.chunk.resize(static_cast<std::size_t>(count) - sizeof(Frame));
  return SocketStatus::kDone;
}

}  // namespace energon
