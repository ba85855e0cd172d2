#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "tests/support/child_runner.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"

using energon::BatchMemory;
using energon::Buffer;
using energon::HeapBufferPool;

namespace {

/// Counts the buffers that are allocated on the heap.
class CountedMemory final : public energon::BufferAllocator {
 public:
  Buffer allocate(std::size_t size) override {
    sizes.push_back(size);
    return pool_.allocate(size);
  }

  std::vector<std::size_t> sizes;

 private:
  HeapBufferPool pool_;
};

bool follows(const Buffer& first, const Buffer& second, std::size_t distance) {
  return second.owner == first.owner && second.bytes.data() == first.bytes.data() + distance;
}

}  // namespace

TEST_CASE("consecutive allocations are adjacent", "[energon][batch_memory]") {
  CountedMemory heap;
  BatchMemory memory(heap);
  const Buffer first = memory.allocate(100);
  const Buffer second = memory.allocate(64);
  const Buffer third = memory.allocate(0);
  CHECK(first.bytes.size() == 100);
  CHECK(follows(first, second, 128));
  CHECK(follows(second, third, 64));
  CHECK(heap.sizes.size() == 1);
}

TEST_CASE("a batch like the last one takes one buffer of its size", "[energon][batch_memory]") {
  CountedMemory heap;
  BatchMemory memory(heap);
  constexpr std::size_t kRow = 150528;
  for (int batch = 0; batch < 3; ++batch) {
    CAPTURE(batch);
    heap.sizes.clear();
    std::vector<Buffer> rows;
    for (int i = 0; i < 64; ++i) {
      rows.push_back(memory.allocate(kRow));
    }
    if (batch > 0) {
      CHECK(heap.sizes == std::vector<std::size_t>{64 * kRow});
      for (std::size_t i = 1; i < rows.size(); ++i) {
        CAPTURE(i);
        CHECK(follows(rows[i - 1], rows[i], kRow));
      }
    }
    memory.end_batch();
  }
}

TEST_CASE("after the end of a batch, nothing else holds its buffer", "[energon][batch_memory]") {
  HeapBufferPool heap;
  BatchMemory memory(heap);
  const Buffer first = memory.allocate(10);
  CHECK(first.owner.use_count() == 2);
  memory.end_batch();
  CHECK(first.owner.use_count() == 1);
  CHECK(memory.allocate(10).owner != first.owner);
}

TEST_CASE("smaller batches lower the memory reserved for the next ones",
          "[energon][batch_memory]") {
  CountedMemory heap;
  BatchMemory memory(heap);
  memory.allocate(std::size_t{30} << 20);
  for (int batch = 0; batch < 60; ++batch) {
    memory.end_batch();
    memory.allocate(1);
  }
  CHECK(heap.sizes[1] == std::size_t{30} << 20);
  CHECK(std::ranges::is_sorted(heap.sizes, std::greater()));
  CHECK(heap.sizes.back() == std::size_t{64} << 10);
}

TEST_CASE("large values get their own buffer", "[energon][batch_memory]") {
  CountedMemory heap;
  BatchMemory memory(heap);
  memory.allocate(1);
  const Buffer large = memory.allocate(BatchMemory::kLargestPart + 1);
  CHECK(large.owner.use_count() == 1);
  memory.allocate(1);
  CHECK(heap.sizes.size() == 2);
}

TEST_CASE("invalid tensor shapes are refused", "[energon][batch_memory]") {
  HeapBufferPool heap;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{-1}, {INT64_MAX, 2}, {INT64_MAX / 4 + 1, 4, 2}}) {
    CAPTURE(shape);
    CHECK_THROWS_WITH(energon::new_tensor(energon::DType::kFloat32, shape, heap),
                      Catch::Contains("invalid tensor shape"));
  }
  CHECK(energon::new_tensor(energon::DType::kFloat32, {}, heap).bytes.size() == 4);
  CHECK(energon::new_tensor(energon::DType::kFloat32, {3, 0}, heap).bytes.empty());
}

#ifndef NDEBUG
TEST_CASE("debug builds fill new tensors with a conspicuous value", "[energon][batch_memory]") {
  HeapBufferPool heap;
  const energon::NewTensor made = energon::new_tensor(energon::DType::kFloat32, {3}, heap);
  CHECK(std::ranges::all_of(made.bytes, [](std::byte byte) { return byte == std::byte{0xFF}; }));
}
#endif

TEST_CASE(
    "all pools of a process together keep a bounded amount of memory, most recently used first",
    "[energon][batch_memory]") {
  constexpr std::size_t kSize = std::size_t{16} << 20;
  const std::size_t before = HeapBufferPool::cached_bytes();
  const auto use = [](HeapBufferPool& pool, std::size_t count) {
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < count; ++i) {
      buffers.push_back(pool.allocate(kSize));
    }
  };
  {
    HeapBufferPool idle;
    use(idle, HeapBufferPool::kMostCachedBytes / kSize);
    CHECK(HeapBufferPool::cached_bytes() == HeapBufferPool::kMostCachedBytes);
    {
      HeapBufferPool busy;
      const std::byte* first = nullptr;
      for (int round = 0; round < 3; ++round) {
        const Buffer small = busy.allocate(100'000);
        CHECK((round == 0 || small.bytes.data() == first));  // the memory of the previous round
        first = small.bytes.data();
        CHECK(HeapBufferPool::cached_bytes() <= HeapBufferPool::kMostCachedBytes);
      }
      use(busy, 2 * HeapBufferPool::kMostCachedBytes / kSize);
      CHECK(HeapBufferPool::cached_bytes() <= HeapBufferPool::kMostCachedBytes);
      const Buffer huge = busy.allocate(HeapBufferPool::kMostCachedBytes + 1);
    }
    CHECK(HeapBufferPool::cached_bytes() <= HeapBufferPool::kMostCachedBytes);
  }
  CHECK(HeapBufferPool::cached_bytes() <= before);
}

TEST_CASE("a buffer that outlives its pool is freed, not kept", "[energon][batch_memory]") {
  Buffer buffer;
  {
    HeapBufferPool pool;
    buffer = pool.allocate(1 << 20);
    const std::size_t before = HeapBufferPool::cached_bytes();
    const Buffer first = pool.allocate(1 << 20);
    const Buffer second = pool.allocate(1 << 20);
    CHECK(HeapBufferPool::cached_bytes() <= before);
  }
  const std::size_t after = HeapBufferPool::cached_bytes();
  std::ranges::fill(buffer.bytes, std::byte{1});
  buffer = {};
  CHECK(HeapBufferPool::cached_bytes() == after);
}

TEST_CASE("pools of several threads and a child share their memory",
          "[energon][batch_memory][threads][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    return energon::testing::skip_case(
        "memory that the threads hold at the fork is a leak in the child");
  }
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&is_over] {
      HeapBufferPool pool;
      while (!is_over) {
        pool.allocate(10'000);
      }
    });
  }
  bool is_well = true;
  for (int i = 0; i < 30; ++i) {  // to hit many states of the threads at the fork
    const auto child = energon::testing::run_in_child(
        [] {
          HeapBufferPool pool;
          return pool.allocate(10'000).bytes.size() == 10'000 ? 0 : 1;
        },
        std::chrono::seconds(20));
    is_well = is_well && child.exit_code == 0;
  }
  is_over = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(is_well);
}
