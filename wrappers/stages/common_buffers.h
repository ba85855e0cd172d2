// Memory for the small samples that different readers read for one batch.

#pragma once

#include <cstddef>

#include "energon/sample/buffer_allocator.h"

namespace energon {

/// Cuts small buffers out of larger ones, so that a batch over many datasets takes few buffers.
class CommonBuffers final : public BufferAllocator {
 public:
  static constexpr std::size_t kLargestPart = std::size_t{16} << 10;
  static constexpr std::size_t kBufferBytes = std::size_t{128} << 10;

  /// `buffers` is borrowed.
  explicit CommonBuffers(BufferAllocator& buffers) : buffers_(buffers) {}

  Buffer allocate(std::size_t size) override;
  /// Holds nothing from here on: a batch may be sent without a copy if nothing else holds its
  /// buffers.
  void end_batch() { rest_ = {}; }

 private:
  BufferAllocator& buffers_;
  Buffer rest_;  // of the buffer that parts are cut from
};

}  // namespace energon
