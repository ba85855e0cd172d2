// How often the state of a stream is kept while its batches are made.

#pragma once

#include <cstdint>
#include <optional>

namespace energon {

/// Not thread-safe.
class CheckpointInterval {
 public:
  /// `every_batches`: 0 for the first of each epoch, absent for "as often as the size of the state
  /// allows", which is once eight times as many bytes were moved in batches: after each batch,
  /// unless batches are small or shuffle buffers large.
  explicit CheckpointInterval(std::optional<std::int64_t> every_batches)
      : every_batches_(every_batches) {}

  /// Whether a checkpoint is due after `index` batches, the last of which has `bytes` bytes and may
  /// be the first of its epoch. Call it once per batch.
  bool due(std::int64_t index, std::uint64_t bytes, bool is_first_of_epoch);

  /// One of `size_bytes` was stored after `index` batches.
  void stored(std::int64_t index, std::uint64_t size_bytes);

 private:
  const std::optional<std::int64_t> every_batches_;

  std::int64_t last_index_ = 0;    // of the last checkpoint
  std::uint64_t last_size_ = 0;    // its bytes
  std::uint64_t bytes_moved_ = 0;  // in batches since then
};

}  // namespace energon
