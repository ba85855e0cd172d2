#include "energon/worker/checkpoint_interval.h"

namespace energon {
namespace {

// Without a setting, storing states costs about an eighth of the bytes that batches cost.
constexpr std::uint64_t kBatchBytesPerStateByte = 8;

// Fewer bytes of batches than this do not pay for a checkpoint: a restore makes them again at once.
constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 10;

}  // namespace

bool CheckpointInterval::due(std::int64_t index, std::uint64_t bytes, bool is_first_of_epoch) {
  bytes_moved_ += bytes;
  if (every_batches_ == 0) {
    return is_first_of_epoch;
  }
  const std::int64_t batches = index - last_index_;
  if (every_batches_) {
    return batches >= *every_batches_;
  }
  return bytes_moved_ >= kBatchBytesPerStateByte * last_size_ &&
         (bytes_moved_ >= kLeastBytes || batches >= kMostBatches);
}

void CheckpointInterval::stored(std::int64_t index, std::uint64_t size_bytes) {
  last_index_ = index;
  last_size_ = size_bytes;
  bytes_moved_ = 0;
}

}  // namespace energon
