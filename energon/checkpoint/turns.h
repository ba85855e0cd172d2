// Turns: the order in which the logical shards of a rank (or of one worker) deliver their batches.
//
// The next batch comes from the logical shard with the fewest epochs, then the fewest turns in that
// epoch, then the lowest number. While all have batches, this is round robin, like Energon's
// next_worker_id. A logical shard that reached the end of its epoch is skipped until all have
// reached it. The rule depends only on (epoch, turn, logical shard), so any subset of the logical
// shards has the same relative order as the whole. A worker that runs some of a rank's streams
// therefore makes batches in the order in which the parent takes them, and a job can continue with
// the streams on other ranks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace energon {

/// A logical shard's place in that order.
struct Turn {
  std::int64_t epoch = 0;  ///< epoch of its next batch, after those it has ended
  std::int64_t count = 0;  ///< turns it had in that epoch

  bool operator==(const Turn&) const = default;
};

/// For streams 0 … n - 1, in the order of their logical shards. Not thread-safe.
class Turns {
 public:
  Turns() = default;
  /// Starts at `epoch`. Streams that are in a later epoch have no more batches in it.
  Turns(std::vector<Turn> turns, std::int64_t epoch) : turns_(std::move(turns)), epoch_(epoch) {}

  /// The stream whose turn is next; nullopt once all have reached the end of the epoch.
  std::optional<std::size_t> next() const;

  /// Records that `stream` delivered a batch.
  void take(std::size_t stream) { ++turns_[stream].count; }
  /// Undoes take().
  void give_back(std::size_t stream) { --turns_[stream].count; }
  /// Records that `stream` reached the end of its epoch.
  void end_epoch(std::size_t stream) { turns_[stream] = {turns_[stream].epoch + 1, 0}; }
  /// Begins the next epoch. Requires: next() returns nullopt.
  void start_epoch() { ++epoch_; }

  std::int64_t epoch() const { return epoch_; }
  const Turn& of(std::size_t stream) const { return turns_[stream]; }

 private:
  std::vector<Turn> turns_;
  std::int64_t epoch_ = 0;
};

}  // namespace energon
