// The collectives over messages between two ranks: what a transport has to give is send() and
// receive().
//
// Each message is preceded by 24 bytes that name the collective, its number and the size of what
// follows, so ranks that got out of step end in an error instead of in each other's data. A
// broadcast goes down a binomial tree; gather and scatter are direct, because no data is sent twice
// that way. Since every wait is for one rank, an error can name it.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "energon/distributed/comm.h"
#include "energon/process/wait.h"
#include "io/error.h"

namespace energon {

/// Not a stable format: all ranks are one build.
class MessageComm : public Comm {
 public:
  /// Throws Error (kInvalidArgument).
  MessageComm(int rank, int size, const CommOptions& options);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string broadcast(std::string bytes, int source) override;
  std::vector<std::string> gather(std::string bytes, int destination) override;
  std::vector<std::string> all_gather(std::string bytes) override;
  std::string scatter(std::vector<std::string> parts, int source) override;
  void scatter_into(std::span<const ByteView> parts, std::span<std::byte> own, int source) override;
  void barrier() override;

 protected:
  /// Sends all of `bytes` to rank `to`, or fills all of `bytes` with what rank `from` sends. Throw
  /// Error: kTimeout after `deadline`, kWorkerDied if the other rank is gone.
  virtual void send(int to, ByteView bytes, Deadline deadline) = 0;
  virtual void receive(int from, std::span<std::byte> bytes, Deadline deadline) = 0;

 private:
  enum class Operation : std::uint32_t { kBroadcast = 1, kGather, kScatter };
  struct Header;

  template <class Result>
  Result run(Operation operation, int root, const std::function<Result(Deadline)>& body);
  void send_message(int to, Operation operation, std::string_view bytes, Deadline deadline);
  std::uint64_t receive_header(int from, Operation operation, Deadline deadline);
  std::string receive_message(int from, Operation operation, Deadline deadline);

  const int rank_;
  const int size_;
  const std::chrono::milliseconds timeout_;

  std::uint64_t operations_ = 0;  // begun
  std::optional<Error> failure_;
};

}  // namespace energon
