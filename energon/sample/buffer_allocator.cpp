#include "energon/sample/buffer_allocator.h"

#include <algorithm>
#include <bit>
#include <map>
#include <new>
#include <vector>

#include "io/mutex.h"

namespace energon {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::size_t kSmallest = 4096;
// Free memory kept for reuse. More than a few batches in flight need, less than a page cache would
// miss.
constexpr std::size_t kKeptBytes = std::size_t{256} << 20;

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
};
using Memory = std::unique_ptr<std::byte[], AlignedDelete>;

}  // namespace

/// Free memory by size class (powers of two), most recently used last.
class HeapBufferPool::FreeList {
 public:
  Memory take(std::size_t size_class) {
    {
      const MutexLock lock(mutex_);
      auto& free = free_[size_class];
      if (!free.empty()) {
        Memory memory = std::move(free.back());
        free.pop_back();
        kept_bytes_ -= size_class;
        return memory;
      }
    }
    return Memory(static_cast<std::byte*>(::operator new[](size_class, kAlignment)));
  }

  void give_back(Memory memory, std::size_t size_class) {
    const MutexLock lock(mutex_);
    if (kept_bytes_ + size_class <= kKeptBytes) {
      kept_bytes_ += size_class;
      free_[size_class].push_back(std::move(memory));
    }
  }

 private:
  Mutex mutex_;
  std::map<std::size_t, std::vector<Memory>> free_ ENERGON_GUARDED_BY(mutex_);
  std::size_t kept_bytes_ ENERGON_GUARDED_BY(mutex_) = 0;
};

HeapBufferPool::HeapBufferPool() : free_list_(std::make_shared<FreeList>()) {}
HeapBufferPool::~HeapBufferPool() = default;

Buffer HeapBufferPool::allocate(std::size_t size) {
  const std::size_t size_class = std::bit_ceil(std::max(size, kSmallest));
  std::byte* memory = free_list_->take(size_class).release();
  std::shared_ptr<const void> owner(memory,
                                    [free_list = free_list_, size_class](std::byte* released) {
                                      free_list->give_back(Memory(released), size_class);
                                    });
  return {{memory, size}, std::move(owner)};
}

BufferAllocator& heap_memory() {
  static HeapBufferPool memory;
  return memory;
}

}  // namespace energon
