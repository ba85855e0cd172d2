#include "energon/sample/buffer_allocator.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::size_t kSmallest = 4096;

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
};
using Memory = std::unique_ptr<std::byte[], AlignedDelete>;

#ifndef NDEBUG
constexpr std::byte kPoison{0xFF};  // NaN as a floating-point value
#endif

}  // namespace

/// What the live buffers of a pool share with it.
struct HeapBufferPool::Share {
  bool is_open = true;  // guarded by the mutex of FreeMemory; false once the pool is destroyed
};

/// The free memory of all pools of the process, by size class (powers of two).
class HeapBufferPool::FreeMemory {
 public:
  /// Never destroyed: buffers may be released after the end of main().
  static FreeMemory& of_process() {
    static FreeMemory& memory = *new FreeMemory;
    return memory;
  }

  Memory take(std::size_t size_class) {
    {
      const MutexLock lock(mutex_);
      std::vector<Block>& free = free_[size_class];
      if (!free.empty()) {
        Memory memory = std::move(free.back().memory);
        free.pop_back();
        cached_bytes_ -= size_class;
        return memory;
      }
    }
    return Memory(static_cast<std::byte*>(::operator new[](size_class, kAlignment)));
  }

  void give_back(Memory memory, std::size_t size_class, const Share& share) {
    const MutexLock lock(mutex_);
    if (!share.is_open || size_class > kMostCachedBytes) {
      return;
    }
    while (cached_bytes_ > kMostCachedBytes - size_class) {
      drop_longest_unused();
    }
    free_[size_class].push_back({std::move(memory), &share, ++gives_});
    cached_bytes_ += size_class;
  }

  void close(Share& share) {
    const MutexLock lock(mutex_);
    share.is_open = false;
    for (auto& [size_class, free] : free_) {
      cached_bytes_ -= size_class * std::erase_if(free, [&share](const Block& block) {
                         return block.share == &share;
                       });
    }
  }

  std::size_t cached_bytes() {
    const MutexLock lock(mutex_);
    return cached_bytes_;
  }

 private:
  struct Block {
    Memory memory;
    const Share* share = nullptr;
    std::uint64_t given_at = 0;  // sequence number of the give_back()
  };

  // A child must not inherit a mutex that another thread held, because its pools need the mutex.
  FreeMemory() {
    ::pthread_atfork([] { lock(); }, [] { unlock(); }, [] { unlock(); });
  }

  // Not analyzed: fork handlers hold the mutex across the fork.
  static void lock() ENERGON_NO_THREAD_SAFETY_ANALYSIS { of_process().mutex_.lock(); }
  static void unlock() ENERGON_NO_THREAD_SAFETY_ANALYSIS { of_process().mutex_.unlock(); }

  void drop_longest_unused() ENERGON_REQUIRES(mutex_) {
    auto oldest = free_.end();
    for (auto free = free_.begin(); free != free_.end(); ++free) {
      if (!free->second.empty() && (oldest == free_.end() || free->second.front().given_at <
                                                                 oldest->second.front().given_at)) {
        oldest = free;
      }
    }
    oldest->second.erase(oldest->second.begin());
    cached_bytes_ -= oldest->first;
  }

  Mutex mutex_;
  // Least recently used first.
  std::map<std::size_t, std::vector<Block>> free_ ENERGON_GUARDED_BY(mutex_);
  std::size_t cached_bytes_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::uint64_t gives_ ENERGON_GUARDED_BY(mutex_) = 0;
};

HeapBufferPool::HeapBufferPool() : share_(std::make_shared<Share>()) {}
HeapBufferPool::~HeapBufferPool() { FreeMemory::of_process().close(*share_); }

std::size_t HeapBufferPool::cached_bytes() { return FreeMemory::of_process().cached_bytes(); }

Buffer HeapBufferPool::allocate(std::size_t size) {
  const std::size_t size_class = std::bit_ceil(std::max(size, kSmallest));
  std::byte* memory = FreeMemory::of_process().take(size_class).release();
  std::shared_ptr<const void> owner(memory, [share = share_, size_class](std::byte* released) {
    FreeMemory::of_process().give_back(Memory(released), size_class, *share);
  });
  return {{memory, size}, std::move(owner)};
}

BufferAllocator& heap_memory() {
  static HeapBufferPool memory;
  return memory;
}

Buffer BatchMemory::allocate(std::size_t size) {
  if (size > kLargestPart) {
    return buffers_.allocate(size);
  }
  const std::size_t part = align_up(size, kAlignment);
  if (rest_.owner == nullptr || rest_.bytes.size() < part) {
    const std::size_t wanted = expected_ > taken_ ? expected_ - taken_ : taken_;
    rest_ = buffers_.allocate(std::max(part, std::clamp(wanted, kSmallestBuffer, kLargestBuffer)));
  }
  taken_ += part;
  Buffer buffer{.bytes = rest_.bytes.first(size), .owner = rest_.owner};
  rest_.bytes = rest_.bytes.subspan(part);
  return buffer;
}

// A batch that takes less than expected lowers the expectation by an eighth.
void BatchMemory::end_batch() {
  expected_ = std::max(taken_, expected_ - expected_ / 8);
  taken_ = 0;
  rest_ = {};
}

std::size_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape) {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes)) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("invalid tensor shape ({})", fmt::join(shape.begin(), shape.end(), ", ")));
    }
  }
  return bytes;
}

NewTensor new_tensor(DType dtype, std::vector<std::int64_t> shape, BufferAllocator& memory) {
  const std::size_t size = tensor_bytes(dtype, shape);
  Buffer buffer = memory.allocate(size);
#ifndef NDEBUG
  std::ranges::fill(buffer.bytes, kPoison);
#endif
  return {{dtype, std::move(shape), {buffer.bytes, std::move(buffer.owner)}}, buffer.bytes};
}

}  // namespace energon
