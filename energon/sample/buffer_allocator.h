// Where a pipeline puts the bytes it reads: the heap, or the shared memory of its worker.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace energon {

/// Writable memory and what keeps it alive.
struct Buffer {
  std::span<std::byte> bytes;  ///< aligned to 64 bytes
  std::shared_ptr<const void> owner;
};

/// Called by the thread that drives the pipeline; buffers may be released on any thread.
class BufferAllocator {
 public:
  virtual ~BufferAllocator() = default;

  /// Memory of `size` bytes, not cleared. Throws Error (kResourceExhausted) that names the limit.
  virtual Buffer allocate(std::size_t size) = 0;
};

/// Heap memory, recycled: first touch of fresh pages costs more than the copy into them.
/// Thread-safe.
class HeapBufferPool final : public BufferAllocator {
 public:
  HeapBufferPool();
  ~HeapBufferPool() override;

  Buffer allocate(std::size_t size) override;

 private:
  class FreeList;
  std::shared_ptr<FreeList> free_list_;  // shared with the buffers that are out
};

}  // namespace energon
