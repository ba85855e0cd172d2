// How many system calls a batch costs in the reader and at both ends of a real worker's channel.

#include <cstdint>

#include <catch2/catch.hpp>

#include "energon/loader/savable_data_loader.h"
#include "tests/guard/bounds.h"
#include "tests/guard/calls.h"
#include "tests/guard/small_batches.h"
#include "tests/support/temp_dir.h"

using namespace energon::testing;  // NOLINT: a test

namespace {

double per(std::uint64_t count, int batches) { return static_cast<double>(count) / batches; }

}  // namespace

TEST_CASE("a batch from 16 slices costs few reads, and no opens", "[guard]") {
  const TempDir folder;
  const auto loader = warm_loader(small_samples(folder.path(), Parts::kOne));
  constexpr int kBatches = 100;
  const Calls calls = count_calls([&] { take_batches(*loader, kBatches); });
  CHECK(per(calls.preads, kBatches) <= kSystemCalls.preads);
  CHECK(per(calls.preads, kBatches) > 0);  // they are counted
  CHECK(calls.opens == 0);
}

TEST_CASE("a batch from a worker costs few system calls of the transport", "[guard][fork]") {
  const TempDir folder;
  const auto dataset = small_samples(folder.path(), Parts::kOne);
  for (const std::int64_t batch_size : {1, 8, 64}) {
    energon::SavableDataLoader loader(batches_of(dataset, 0, batch_size),
                                      {.worker_config = {.num_workers = 1}});
    const auto take = [&](int count) {
      for (int i = 0; i < count; ++i) {
        REQUIRE(loader.next());
      }
    };
    take(500);
    constexpr int kBatches = 5000;
    const Calls calls = count_calls([&] { take(kBatches); });
    CAPTURE(batch_size);
    CHECK(per(calls.transport, kBatches) <=
          (batch_size < kBatchSamples ? kSystemCalls.small_batch : kSystemCalls.batch));
    CHECK(calls.transport > 0);  // they are counted
  }
}
