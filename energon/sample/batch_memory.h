// Memory for the values that functions make for one batch.

#pragma once

#include <cstddef>

#include "energon/sample/buffer_allocator.h"

namespace energon {

/// Cuts buffers out of one that has room for what the last batches took. What is allocated in turn
/// lies side by side, so tensors that samples of a batch got are one tensor when they are stacked
/// (wrappers/batching/tensor_batch.h), and many small values take one buffer. Used by one thread;
/// buffers may be released on any.
class BatchMemory final : public BufferAllocator {
 public:
  /// Buffers are cut at multiples of this many bytes.
  static constexpr std::size_t kAlignment = 64;
  /// Larger ones get a buffer of their own.
  static constexpr std::size_t kLargestPart = std::size_t{32} << 20;

  /// `buffers` is borrowed.
  explicit BatchMemory(BufferAllocator& buffers) : buffers_(buffers) {}

  Buffer allocate(std::size_t size) override;

  /// What is allocated from now on belongs to another batch. Holds nothing from here on, so that a
  /// batch may be sent without a copy if nothing else holds its buffers.
  void end_batch();

 private:
  static constexpr std::size_t kSmallestBuffer = std::size_t{64} << 10;
  static constexpr std::size_t kLargestBuffer = std::size_t{256} << 20;

  BufferAllocator& buffers_;
  Buffer rest_;               // of the buffer that parts are cut from
  std::size_t taken_ = 0;     // in parts, by this batch
  std::size_t expected_ = 0;  // that a batch takes
};

}  // namespace energon
