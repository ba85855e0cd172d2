#include "energon/worker/checkpoint_interval.h"

namespace energon {
namespace {

// Without a setting, storing states costs about an eighth of the bytes that batches cost.
constexpr std::uint64_t kBatchBytesPerStateByte = 8;

}  // namespace

bool CheckpointInterval::due(std::int64_t index, std::uint64_t bytes, bool is_first_of_epoch) {
  bytes_moved_ += bytes;
  if (every_batches_ == 0) {
    return is_first_of_epoch;
  }
  return every_batches_ ? index - last_index_ >= *every_batches_
                        : bytes_moved_ >= kBatchBytesPerStateByte * last_size_;
}

void CheckpointInterval::stored(std::int64_t index, std::uint64_t size_bytes) {
  last_index_ = index;
  last_size_ = size_bytes;
  bytes_moved_ = 0;
}

}  // namespace energon
