#include "energon/distributed/socket_comm.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "energon/process/os_error.h"
#include "energon/process/wait.h"
#include "io/error.h"

namespace energon {

SocketComm::SocketComm(int rank, std::vector<UniqueFd> sockets, const CommOptions& options)
    : MessageComm(rank, static_cast<int>(sockets.size()), options), sockets_(std::move(sockets)) {}

void SocketComm::send(int to, ByteView bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket(to), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else {
      wait_or_throw(to, true, deadline);
    }
  }
}

void SocketComm::receive(int from, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket(from), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    } else if (received == 0) {
      throw Error(ErrorCode::kWorkerDied, fmt::format("rank {} is gone", from));
    } else {
      wait_or_throw(from, false, deadline);
    }
  }
}

// Call after a failed socket call. Waits if the socket was merely not ready.
void SocketComm::wait_or_throw(int other, bool until_writable, Deadline deadline) const {
  if (errno != EAGAIN && errno != EINTR) {
    throw Error(ErrorCode::kWorkerDied, fmt::format("rank {} is gone", other));
  }
  Waitable waitable{.fd = socket(other), .until_writable = until_writable};
  if (!wait_any(std::span(&waitable, 1), deadline)) {
    throw Error(ErrorCode::kTimeout, fmt::format("rank {} did not answer in time", other));
  }
}

std::vector<std::vector<UniqueFd>> socket_mesh(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::vector<UniqueFd>> mesh(count);
  for (auto& row : mesh) {
    row.resize(count);
  }
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        throw os_error(fmt::format("cannot connect {} ranks", ranks), errno);
      }
      mesh[a][b].reset(pair[0]);
      mesh[b][a].reset(pair[1]);
    }
  }
  return mesh;
}

std::vector<UniqueFd> take_row(std::vector<std::vector<UniqueFd>>& mesh, int rank) {
  std::vector<UniqueFd> own = std::move(mesh.at(static_cast<std::size_t>(rank)));
  mesh.clear();
  return own;
}

}  // namespace energon
