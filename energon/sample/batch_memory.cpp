#include "energon/sample/batch_memory.h"

#include <algorithm>

namespace energon {

Buffer BatchMemory::allocate(std::size_t size) {
  if (size > kLargestPart) {
    return buffers_.allocate(size);
  }
  const std::size_t part = (size + kAlignment - 1) / kAlignment * kAlignment;
  if (rest_.owner == nullptr || rest_.bytes.size() < part) {
    const std::size_t wanted = expected_ > taken_ ? expected_ - taken_ : taken_;
    rest_ = buffers_.allocate(std::max(part, std::clamp(wanted, kSmallestBuffer, kLargestBuffer)));
  }
  taken_ += part;
  Buffer buffer{.bytes = rest_.bytes.first(size), .owner = rest_.owner};
  rest_.bytes = rest_.bytes.subspan(part);
  return buffer;
}

// A batch that takes less than others lowers what the next are expected to take by an eighth.
void BatchMemory::end_batch() {
  expected_ = std::max(taken_, expected_ - expected_ / 8);
  taken_ = 0;
  rest_ = {};
}

}  // namespace energon
