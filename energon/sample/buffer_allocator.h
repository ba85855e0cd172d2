// Memory for the values of a pipeline. A BufferAllocator gives the memory for the bytes that a
// pipeline reads, on the heap or in the shared memory of its worker; BatchMemory cuts buffers out
// of it for what functions make for one batch; new_tensor() makes a tensor in either.

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
/// pools of a process together keep at most kMostCachedBytes for reuse, those that were used last;
/// what a pool has left is freed with it. Thread-safe.
class HeapBufferPool final : public BufferAllocator {
 public:
  /// More than a few batches in flight need, less than a page cache would miss.
  static constexpr std::size_t kMostCachedBytes = std::size_t{256} << 20;

  HeapBufferPool();
  ~HeapBufferPool() override;
  HeapBufferPool(const HeapBufferPool&) = delete;
  HeapBufferPool& operator=(const HeapBufferPool&) = delete;

  Buffer allocate(std::size_t size) override;

  /// Bytes that all pools of this process keep for reuse now.
  static std::size_t cached_bytes();

 private:
  class FreeMemory;
  struct Share;
  const std::shared_ptr<Share> share_;  // with the live buffers
};

/// One pool of the process, for whoever is given no memory. Thread-safe.
BufferAllocator& heap_memory();

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

/// A tensor whose memory may be written until the tensor is handed on.
struct NewTensor {
  Tensor tensor;
  std::span<std::byte> bytes;  ///< of tensor.data
};

/// A new tensor in `memory`, aligned to 64 bytes and not cleared. Debug builds fill it with 0xFF
/// (floating point: not a number), so that elements that are never written stand out. Throws Error
/// (kInvalidArgument) if a dimension is negative or the size overflows, and what allocate() throws.
NewTensor new_tensor(DType dtype, std::vector<std::int64_t> shape, BufferAllocator& memory);

/// Bytes of a tensor. Throws Error (kInvalidArgument) if a dimension is negative or the size
/// overflows.
std::size_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape);

}  // namespace energon
