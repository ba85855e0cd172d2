#include "wrappers/stages/common_buffers.h"

#include <algorithm>

namespace energon {
namespace {

constexpr std::size_t kPartAlignment = 64;

}  // namespace

Buffer CommonBuffers::allocate(std::size_t size) {
  if (size > kLargestPart) {
    return buffers_.allocate(size);
  }
  if (rest_.bytes.size() < size) {
    rest_ = buffers_.allocate(kBufferBytes);
  }
  Buffer part{.bytes = rest_.bytes.first(size), .owner = rest_.owner};
  const std::size_t taken = (size + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  rest_.bytes = rest_.bytes.subspan(std::min(taken, rest_.bytes.size()));
  return part;
}

}  // namespace energon
