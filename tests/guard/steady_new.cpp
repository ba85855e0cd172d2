#include "tests/guard/steady_new.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t kGrain = 16;
constexpr std::size_t kSmallClasses = 1024;           // up to 16 KiB, in steps of a grain
constexpr std::size_t kClasses = kSmallClasses + 64;  // and powers of two
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

/// Stored before the caller's memory.
struct alignas(kGrain) Header {
  union {
    Header* next;  // next free block, if free
    void* block;   // start of the block, if used
  };
  std::size_t size_class;
};
static_assert(sizeof(Header) == kGrain);

// Needed by the threads that make the data.
std::atomic_flag is_busy = ATOMIC_FLAG_INIT;
std::array<Header*, kClasses> free_blocks{};
std::byte* chunk = nullptr;
std::size_t chunk_left = 0;
std::uint64_t allocation_count = 0;

class Lock {
 public:
  Lock() {
    while (is_busy.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Lock() { is_busy.clear(std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

std::size_t class_of(std::size_t bytes) {
  const std::size_t grains = (bytes + kGrain - 1) / kGrain;
  return grains < kSmallClasses
             ? grains
             : kSmallClasses + static_cast<std::size_t>(std::bit_width(bytes - 1));
}

std::size_t bytes_of(std::size_t size_class) {
  return size_class < kSmallClasses ? size_class * kGrain
                                    : std::size_t{1} << (size_class - kSmallClasses);
}

// A fresh block, if the free list is empty.
void* new_block(std::size_t bytes) {
  if (bytes >= kChunkBytes) {
    return std::malloc(bytes);
  }
  if (chunk_left < bytes) {
    chunk = static_cast<std::byte*>(std::malloc(kChunkBytes));
    chunk_left = chunk != nullptr ? kChunkBytes : 0;
  }
  if (chunk == nullptr) {
    return nullptr;
  }
  chunk_left -= bytes;
  return chunk + chunk_left;
}

void* allocate(std::size_t size, std::size_t alignment) {
  const Lock lock;
  ++allocation_count;
  const std::size_t padding = alignment > kGrain ? alignment : 0;
  const std::size_t size_class = class_of(sizeof(Header) + padding + size);
  void* block = free_blocks[size_class];
  if (block != nullptr) {
    free_blocks[size_class] = free_blocks[size_class]->next;
  } else if (block = new_block(bytes_of(size_class)); block == nullptr) {
    throw std::bad_alloc();
  }
  std::byte* place = static_cast<std::byte*>(block) + sizeof(Header);
  if (padding != 0) {
    const std::size_t odd = std::bit_cast<std::uintptr_t>(place) % alignment;
    place += odd == 0 ? 0 : alignment - odd;
  }
  Header* const header = std::launder(reinterpret_cast<Header*>(place - sizeof(Header)));
  header->block = block;
  header->size_class = size_class;
  return place;
}

void free_memory(void* memory) {
  if (memory == nullptr) {
    return;
  }
  const Lock lock;
  const Header used = *(static_cast<Header*>(memory) - 1);
  auto* const header = static_cast<Header*>(used.block);
  header->next = free_blocks[used.size_class];
  free_blocks[used.size_class] = header;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { free_memory(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { free_memory(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { free_memory(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  free_memory(memory);
}

namespace energon::testing {

std::uint64_t steady_allocations() { return allocation_count; }

}  // namespace energon::testing
