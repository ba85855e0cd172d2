// Decides how often the state of a stream is stored while its batches are made.

#pragma once

#include <cstdint>
#include <optional>

namespace energon {

/// Not thread-safe.
class CheckpointInterval {
 public:
  /// After this many batches a checkpoint is due even if they are small.
  static constexpr std::int64_t kMostBatches = 32;

  /// `every_batches`: 0 means after the first batch of each epoch. Absent: as soon as the batches
  /// since the last checkpoint have eight times as many bytes as that checkpoint, and either 64 KiB
  /// or kMostBatches. This is after each batch, unless batches are small or shuffle buffers are
  /// large.
  explicit CheckpointInterval(std::optional<std::int64_t> every_batches)
      : every_batches_(every_batches) {}

  /// Whether a checkpoint is due after `index` batches. `bytes` is the size of the last batch;
  /// `is_first_of_epoch` tells whether it is the first of its epoch. Call it once per batch.
  bool due(std::int64_t index, std::uint64_t bytes, bool is_first_of_epoch);

  /// Records that a checkpoint of `size_bytes` was stored after `index` batches.
  void stored(std::int64_t index, std::uint64_t size_bytes);

 private:
  const std::optional<std::int64_t> every_batches_;

  std::int64_t last_index_ = 0;    // index of the last checkpoint
  std::uint64_t last_size_ = 0;    // bytes of the last checkpoint
  std::uint64_t bytes_moved_ = 0;  // bytes in batches since then
};

}  // namespace energon
