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

/// Recycles heap memory: the first touch of fresh pages costs more than the copy into them.
/// Thread-safe.
class HeapBufferPool final : public BufferAllocator {
 public:
  HeapBufferPool();
  ~HeapBufferPool() override;

  Buffer allocate(std::size_t size) override;

 private:
  class FreeList;
  std::shared_ptr<FreeList> free_list_;  // shared with the live buffers
};

/// One pool of the process, for whoever is given no memory. Thread-safe.
BufferAllocator& heap_memory();

}  // namespace energon
