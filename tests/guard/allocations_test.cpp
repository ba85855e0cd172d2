// How many allocations a batch costs, once all buffers have their size.

#include <cstdint>

#include <catch2/catch.hpp>

#include "tests/guard/bounds.h"
#include "tests/guard/calls.h"
#include "tests/guard/small_batches.h"
#include "tests/guard/worker_pair.h"
#include "tests/support/temp_dir.h"

using namespace energon::testing;  // NOLINT: a test

namespace {

constexpr int kBatches = 50;

template <class Function>
double allocations_per_batch(const Function& run) {
  return static_cast<double>(count_calls(run).allocations) / kBatches;
}

}  // namespace

TEST_CASE("a batch read without workers costs few allocations", "[guard]") {
  const TempDir folder;
  const Parts parts = GENERATE(Parts::kOne, Parts::kTwo);
  const auto loader = warm_loader(small_samples(folder.path(), parts));
  const double count = allocations_per_batch([&] { take_batches(*loader, kBatches); });
  CHECK(count <= (parts == Parts::kOne ? kAllocations.read_one_part : kAllocations.read_two_parts));
}

TEST_CASE("a batch from a worker costs few allocations on either side", "[guard]") {
  const TempDir folder;
  WorkerPair pair(batches_of(small_samples(folder.path(), Parts::kTwo)));
  const auto send = [&] {
    for (int i = 0; i < kBatches; ++i) {
      pair.send();
    }
  };
  const auto receive = [&] {
    for (int i = 0; i < kBatches; ++i) {
      pair.receive();
    }
  };
  send();
  receive();
  CHECK(allocations_per_batch(send) <= kAllocations.send);
  CHECK(allocations_per_batch(receive) <= kAllocations.receive);
}
