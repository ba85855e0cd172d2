// Allocates the memory for the bytes that a pipeline reads: on the heap, or in the shared memory of
// its worker.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

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
/// pools of a process together keep at most kMostKeptBytes for reuse, those that were used last;
/// what a pool has left is freed with it. Thread-safe.
class HeapBufferPool final : public BufferAllocator {
 public:
  /// More than a few batches in flight need, less than a page cache would miss.
  static constexpr std::size_t kMostKeptBytes = std::size_t{256} << 20;

  HeapBufferPool();
  ~HeapBufferPool() override;
  HeapBufferPool(const HeapBufferPool&) = delete;
  HeapBufferPool& operator=(const HeapBufferPool&) = delete;

  Buffer allocate(std::size_t size) override;

  /// Bytes that all pools of this process keep for reuse now.
  static std::size_t kept_bytes();

 private:
  class FreeMemory;
  struct Share;
  const std::shared_ptr<Share> share_;  // with the live buffers
};

/// One pool of the process, for whoever is given no memory. Thread-safe.
BufferAllocator& heap_memory();

}  // namespace energon
