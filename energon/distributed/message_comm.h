// Implements the collectives with messages between pairs of ranks. A transport only provides send()
// and receive().
//
// A 24-byte header before each message names the collective, its number and the size of the data.
// Ranks that get out of step therefore get an error and never read the wrong data. A broadcast uses
// a binomial tree; gather and scatter are direct, so that no data is sent twice. Every wait is for
// a single rank, so an error can name it.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "energon/distributed/comm.h"
#include "energon/process/wait.h"
#include "io/error.h"

namespace energon {

/// The message format is not stable: all ranks must run the same build.
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
  /// Sends all of `bytes` to rank `to`, or fills all of `bytes` with what rank `from` sends. Both
  /// throw Error: kTimeout after `deadline`, kWorkerDied if the other rank is gone.
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

  std::uint64_t operations_ = 0;  // started so far
  std::optional<Error> failure_;
};

}  // namespace energon
