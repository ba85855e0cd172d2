#include "energon/sample/batch_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/sample/new_tensor.h"
#include "io/error.h"

using energon::BatchMemory;
using energon::Buffer;
using energon::HeapBufferPool;

namespace {

/// Counts the buffers that are taken from the heap.
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

TEST_CASE("what is allocated in turn lies side by side", "[energon][batch_memory]") {
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

TEST_CASE("after the end of a batch its buffer is its own", "[energon][batch_memory]") {
  HeapBufferPool heap;
  BatchMemory memory(heap);
  const Buffer first = memory.allocate(10);
  CHECK(first.owner.use_count() == 2);
  memory.end_batch();
  CHECK(first.owner.use_count() == 1);
  CHECK(memory.allocate(10).owner != first.owner);
}

TEST_CASE("smaller batches lower the memory that is taken for the next",
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

TEST_CASE("large values get a buffer of their own", "[energon][batch_memory]") {
  CountedMemory heap;
  BatchMemory memory(heap);
  memory.allocate(1);
  const Buffer large = memory.allocate(BatchMemory::kLargestPart + 1);
  CHECK(large.owner.use_count() == 1);
  memory.allocate(1);
  CHECK(heap.sizes.size() == 2);
}

TEST_CASE("tensors of impossible shapes are refused", "[energon][batch_memory]") {
  HeapBufferPool heap;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{-1}, {INT64_MAX, 2}, {INT64_MAX / 4 + 1, 4, 2}}) {
    CAPTURE(shape);
    CHECK_THROWS_WITH(energon::new_tensor(energon::DType::kFloat32, shape, heap),
                      Catch::Contains("no tensor has the shape"));
  }
  CHECK(energon::new_tensor(energon::DType::kFloat32, {}, heap).bytes.size() == 4);
  CHECK(energon::new_tensor(energon::DType::kFloat32, {3, 0}, heap).bytes.empty());
}

#ifndef NDEBUG
TEST_CASE("new tensors are filled with what is seen, in debug builds", "[energon][batch_memory]") {
  HeapBufferPool heap;
  const energon::NewTensor made = energon::new_tensor(energon::DType::kFloat32, {3}, heap);
  CHECK(std::ranges::all_of(made.bytes, [](std::byte byte) { return byte == std::byte{0xFF}; }));
}
#endif
