// A Comm over connected stream sockets, one for each pair of ranks: for the ranks of a job on one
// machine (socket_mesh()), or for sockets that the caller connected, between machines too.
//
//   std::vector<std::vector<UniqueFd>> mesh = socket_mesh(ranks);     // then fork the ranks
//   SocketComm comm(rank, take_row(mesh, rank));                      // in each rank

#pragma once

#include <span>
#include <vector>

#include "energon/distributed/message_comm.h"
#include "io/file.h"

namespace energon {

class SocketComm final : public MessageComm {
 public:
  /// sockets[r] is connected to rank r; the own rank's socket is not used. A rank that ends closes
  /// its sockets, which the others detect. Throws Error (kInvalidArgument).
  SocketComm(int rank, std::vector<UniqueFd> sockets, const CommOptions& options = {});

 private:
  void send(int to, ByteView bytes, Deadline deadline) override;
  void receive(int from, std::span<std::byte> bytes, Deadline deadline) override;
  void wait_or_throw(int other, bool until_writable, Deadline deadline) const;
  int socket(int other) const { return sockets_[static_cast<std::size_t>(other)].get(); }

  const std::vector<UniqueFd> sockets_;
};

/// Connected sockets for ranks that this process will fork: element [a][b] is rank a's end to rank
/// b. Throws Error (kResourceExhausted).
std::vector<std::vector<UniqueFd>> socket_mesh(int ranks);

/// In a forked rank: takes its sockets out of the mesh and closes all others, so that the end of a
/// rank can be detected. The parent clears the mesh once all ranks are forked.
std::vector<UniqueFd> take_row(std::vector<std::vector<UniqueFd>>& mesh, int rank);

}  // namespace energon
