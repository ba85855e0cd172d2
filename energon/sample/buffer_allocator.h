// Memory for the values of a pipeline. A BufferAllocator allocates the bytes that a pipeline reads,
// on the heap or in the shared memory of its worker. BatchMemory cuts those buffers into the
// smaller ones that functions need for one batch. new_tensor() allocates a tensor in either.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "energon/sample/sample.h"

namespace energon {

/// Writable memory and the object that keeps it alive.
struct Buffer {
  std::span<std::byte> bytes;  ///< aligned to 64 bytes
  std::shared_ptr<const void> owner;
};

/// allocate() is called by the thread that drives the pipeline. Buffers may be released on any
/// thread.
class BufferAllocator {
 public:
  virtual ~BufferAllocator() = default;

  /// Returns `size` bytes of uninitialized memory. Throws Error (kResourceExhausted) that names the
  /// limit.
  virtual Buffer allocate(std::size_t size) = 0;
};

/// Recycles heap memory: the first touch of fresh pages costs more than the copy into them. All
/// pools of a process together keep at most kMostCachedBytes for reuse, most recently used first. A
/// pool's destructor frees the rest. Thread-safe.
class HeapBufferPool final : public BufferAllocator {
 public:
  /// More than a few batches in flight need, yet too little for the page cache to miss.
  static constexpr std::size_t kMostCachedBytes = std::size_t{256} << 20;

  HeapBufferPool();
  ~HeapBufferPool() override;
  HeapBufferPool(const HeapBufferPool&) = delete;
  HeapBufferPool& operator=(const HeapBufferPool&) = delete;

  Buffer allocate(std::size_t size) override;

  /// Bytes that all pools of this process currently keep for reuse.
  static std::size_t cached_bytes();

 private:
  class FreeMemory;
  struct Share;
  const std::shared_ptr<Share> share_;  // shared with the live buffers
};

/// The default pool of the process. Thread-safe.
BufferAllocator& heap_memory();

/// Cuts buffers out of one large buffer, sized by what the last batches took. Consecutive
/// allocations are adjacent: the tensors of a batch's samples are stacked without a copy
/// (wrappers/batching/tensor_batch.h), and many small values share a buffer. Used by one thread;
/// buffers may be released on any thread.
class BatchMemory final : public BufferAllocator {
 public:
  /// Buffers are cut at multiples of this many bytes.
  static constexpr std::size_t kAlignment = 64;
  /// Larger allocations get their own buffer.
  static constexpr std::size_t kLargestPart = std::size_t{32} << 20;

  /// `buffers` is borrowed.
  explicit BatchMemory(BufferAllocator& buffers) : buffers_(buffers) {}

  Buffer allocate(std::size_t size) override;

  /// Ends the batch: later allocations belong to the next one. Drops its references to buffers, so
  /// a batch whose buffers nobody else holds can be sent without a copy.
  void end_batch();

 private:
  static constexpr std::size_t kSmallestBuffer = std::size_t{64} << 10;
  static constexpr std::size_t kLargestBuffer = std::size_t{256} << 20;

  BufferAllocator& buffers_;
  Buffer rest_;               // unused end of the current buffer
  std::size_t taken_ = 0;     // bytes allocated by this batch
  std::size_t expected_ = 0;  // bytes that a batch is expected to take
};

/// A tensor whose memory may be written until the tensor is passed on.
struct NewTensor {
  Tensor tensor;
  std::span<std::byte> bytes;  ///< of tensor.data
};

/// A new uninitialized tensor in `memory`, aligned to 64 bytes. Debug builds fill it with 0xFF (NaN
/// for floating point), so that elements that are never written stand out. Throws Error
/// (kInvalidArgument) if a dimension is negative or the size overflows, and whatever allocate()
/// throws.
NewTensor new_tensor(DType dtype, std::vector<std::int64_t> shape, BufferAllocator& memory);

/// Size of a tensor in bytes. Throws Error (kInvalidArgument) if a dimension is negative or the
/// size overflows.
std::size_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape);

}  // namespace energon
