// Whose turn it is: the order in which the logical shards of a rank (or of one worker) give their
// batches.
//
// The next batch comes from the logical shard with the fewest epochs, then the fewest turns in that
// epoch, then the lowest number. While all have batches that is round robin, as Energon's
// next_worker_id; one that reached the end of its epoch is passed over until all have. Because the
// rule orders (epoch, turn, logical shard) and nothing else, the order within any part of the
// logical shards is that of the whole: a worker that runs some of a rank's streams makes them in
// the order in which the parent takes them, and a job may go on with them on other ranks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace energon {

/// A logical shard's place in that order.
struct Turn {
  std::int64_t epoch = 0;  ///< that its next batch is of; epochs that ended are left behind
  std::int64_t count = 0;  ///< turns that it had in that epoch

  bool operator==(const Turn&) const = default;
};

/// For streams 0 … n - 1, in the order of their logical shards. Not thread-safe.
class Turns {
 public:
  Turns() = default;
  /// At epoch `epoch`, in which streams that are in a later one have nothing to give.
  Turns(std::vector<Turn> turns, std::int64_t epoch) : turns_(std::move(turns)), epoch_(epoch) {}

  /// The stream whose turn it is; nothing once all reached the end of the epoch.
  std::optional<std::size_t> next() const;

  /// `stream` gave a batch.
  void take(std::size_t stream) { ++turns_[stream].count; }
  /// `stream` reached the end of its epoch.
  void end_epoch(std::size_t stream) { turns_[stream] = {turns_[stream].epoch + 1, 0}; }
  /// The next epoch begins. Requires: next() says nothing.
  void start_epoch() { ++epoch_; }

  std::int64_t epoch() const { return epoch_; }
  const Turn& of(std::size_t stream) const { return turns_[stream]; }

 private:
  std::vector<Turn> turns_;
  std::int64_t epoch_ = 0;
};

}  // namespace energon
