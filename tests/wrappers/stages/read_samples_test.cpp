// The requests of ReadSamples to its readers: shares that may be read ahead, buffers of batches.

#include "wrappers/stages/read_samples.h"

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/order/slice_order.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/pipeline_leaf.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test

namespace {

// Counts the requested buffers.
class CountingAllocator final : public BufferAllocator {
 public:
  Buffer allocate(std::size_t size) override {
    ++count;
    bytes += size;
    return memory_.allocate(size);
  }

  int count = 0;
  std::size_t bytes = 0;

 private:
  HeapBufferPool memory_;
};

std::unique_ptr<Order> slices(std::vector<std::int64_t> bounds, std::uint32_t leaf) {
  return std::make_unique<SliceOrder>(std::move(bounds), std::vector<std::int64_t>(),
                                      SliceOrderOptions{.parallel_slices = 3, .leaf = leaf});
}

}  // namespace

TEST_CASE("small buffers share one allocation, large ones do not", "[wrappers][buffers]") {
  CountingAllocator memory;
  CommonBuffers buffers(memory);
  const Buffer a = buffers.allocate(100);
  const Buffer b = buffers.allocate(CommonBuffers::kLargestPart);
  CHECK(a.bytes.size() == 100);
  CHECK(b.bytes.data() == a.bytes.data() + 128);
  CHECK(a.owner == b.owner);
  CHECK(memory.count == 1);
  const Buffer large = buffers.allocate(CommonBuffers::kLargestPart + 1);
  CHECK(memory.count == 2);
  CHECK(large.owner != a.owner);
  for (int i = 0; i < 7; ++i) {
    CAPTURE(i);
    const Buffer part = buffers.allocate(CommonBuffers::kLargestPart);
    CHECK(reinterpret_cast<std::uintptr_t>(part.bytes.data()) % 64 == 0);
  }
  CHECK(memory.count == 3);
  buffers.end_batch();
  CHECK(a.owner.use_count() == 2);  // a and b: nothing else holds an exhausted buffer
  const Buffer next = buffers.allocate(1);
  CHECK(memory.count == 4);
  CHECK(next.owner != a.owner);
}

TEST_CASE("a batch over many datasets uses few buffers and holds none afterwards",
          "[wrappers][buffers]") {
  std::vector<std::unique_ptr<TempDir>> folders;
  std::vector<std::shared_ptr<const LeafDataset>> leaves;
  std::vector<WeightedOrder> orders;
  for (std::uint32_t i = 0; i < 10; ++i) {
    folders.push_back(std::make_unique<TempDir>());
    leaves.push_back(numbered_dataset(*folders.back(), {20, 20}, 500));
    orders.push_back({slices({0, 20, 40}, i), 1});
  }
  CountingAllocator memory;
  ReadSamples read(std::make_unique<Blend>(std::move(orders), 5), leaves, memory);
  std::vector<Sample> samples;
  read.next_many(64, samples);
  REQUIRE(samples.size() == 64);
  CHECK(memory.count <= 2);
  std::set<const void*> owners;
  for (const Sample& sample : samples) {
    owners.insert(sample.bytes("bin").owner.get());
  }
  const auto owner = samples.front().bytes("bin").owner;
  long held = 1;
  for (const Sample& sample : samples) {
    for (const char* part : {"txt", "bin"}) {
      held += sample.bytes(part).owner == owner ? 1 : 0;
    }
  }
  CHECK(owner.use_count() == held);
}

TEST_CASE("samples are the same in batches of any size", "[wrappers][read_ahead]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {30, 40, 50, 60}, 300);
  const auto read_all = [&](std::int64_t batch) {
    HeapBufferPool memory;
    ReadSamples read(slices({0, 30, 70, 100, 120, 180}, 0), {dataset}, memory);
    std::vector<Sample> samples;
    std::size_t before = 1;
    while (samples.size() != before) {
      before = samples.size();
      read.next_many(batch, samples);
    }
    return samples;
  };
  const auto one_by_one = read_all(1);
  REQUIRE(one_by_one.size() == 180);
  for (const std::int64_t batch : {2, 7, 64, 180}) {
    CAPTURE(batch);
    const auto batches = read_all(batch);
    REQUIRE(batches.size() == one_by_one.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      CAPTURE(i);
      REQUIRE(batches[i].restore_key == one_by_one[i].restore_key);
      REQUIRE(digest(batches[i]) == digest(one_by_one[i]));
    }
  }
}

TEST_CASE("the end of a share is known if its order knows it", "[wrappers][read_ahead]") {
  const auto order = slices({10, 30, 50}, 2);
  const LeafRanges ranges(*order);
  CHECK(ranges.end_of_range(2, 10) == 50);
  CHECK(ranges.end_of_range(2, 49) == 50);
  CHECK(ranges.end_of_range(2, 50) == 51);
  CHECK(ranges.end_of_range(2, 9) == 10);
  CHECK(ranges.end_of_range(1, 20) == 21);
}
