// Decides how often the state of a stream is stored while its batches are made.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace energon {

/// A batch that was made, as CheckpointInterval sees it.
struct MadeBatch {
  std::int64_t index = 0;   ///< batches of the stream up to and including this one, in all epochs
  std::uint64_t bytes = 0;  ///< its size
  bool is_first_of_epoch = false;
  /// How long a replay would take to make it again: the time that making it took, or zero if the
  /// pipeline skips over references (Dataset::skip_makes_items()).
  std::chrono::nanoseconds replay_time{0};
};

enum class CheckpointDue : std::uint8_t {
  kNo,
  kIfRoom,  ///< it shortens a replay, but nobody should wait for the room to store it
  kYes,
};

/// Reads no clock: the caller measures. Not thread-safe.
class CheckpointInterval {
 public:
  /// After this many batches a checkpoint is due even if they are small.
  static constexpr std::int64_t kMostBatches = 32;
  /// A replay that takes less time than this is not worth a checkpoint.
  static constexpr std::chrono::milliseconds kLeastReplay{100};
  /// A replay may take this many times as long as storing a checkpoint, so that storing takes at
  /// most a twentieth of the time.
  static constexpr int kReplayPerStore = 20;

  /// `every_batches`: 0 means after the first batch of each epoch. Absent: as soon as the batches
  /// since the last checkpoint have eight times as many bytes as that checkpoint, and either 64 KiB
  /// or kMostBatches. This is after each batch, unless batches are small or shuffle buffers are
  /// large. If there is room, also as soon as making them again would take at least kLeastReplay
  /// and kReplayPerStore times as long as storing that checkpoint took.
  explicit CheckpointInterval(std::optional<std::int64_t> every_batches)
      : every_batches_(every_batches) {}

  /// Whether a checkpoint is due after `batch`. Call it once per batch.
  CheckpointDue due(const MadeBatch& batch);

  /// Records that a checkpoint of `size_bytes` was stored after `index` batches, which took
  /// `store_time`.
  void stored(std::int64_t index, std::uint64_t size_bytes, std::chrono::nanoseconds store_time);

 private:
  bool is_worth_its_bytes(std::int64_t batches) const;
  bool is_worth_its_time() const;

  const std::optional<std::int64_t> every_batches_;

  // Of the last checkpoint.
  std::int64_t last_index_ = 0;
  std::uint64_t last_size_ = 0;
  std::chrono::nanoseconds store_time_{0};
  // Of the batches since then.
  std::uint64_t bytes_moved_ = 0;
  std::chrono::nanoseconds replay_time_{0};
};

}  // namespace energon
