// Global batches from the records of the ranks of a job.

#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/checkpoint/certificate.h"
#include "io/error.h"
#include "tests/energon/loader/job.h"

using energon::certificate_of_batch;
using energon::certificate_of_global_batch;
using energon::DeliveredEpoch;
using energon::GlobalBatch;
using energon::GlobalBatches;
using energon::SavableDataLoader;
using Numbers = std::vector<std::int64_t>;

namespace {

energon::Certificate certificate(std::int64_t number) {
  return {static_cast<std::uint64_t>(number) + 100, 2};
}

GlobalBatch batch_of(std::int64_t number, const Numbers& micro_batches) {
  std::vector<energon::Certificate> certificates;
  for (const std::int64_t micro_batch : micro_batches) {
    certificates.push_back(certificate(micro_batch));
  }
  return {number, static_cast<std::int64_t>(certificates.size()),
          certificate_of_global_batch(certificates)};
}

// Three logical shards, of which 0 ended after three micro batches, the others after two.
DeliveredEpoch whole() {
  DeliveredEpoch epoch{.epoch = 1, .logical_shards = 3};
  for (std::int64_t number = 0; number < 7; ++number) {
    epoch.micro_batches[number] = certificate(number);
  }
  epoch.ended = {{0, 3}, {1, 2}, {2, 2}};
  return epoch;
}

DeliveredEpoch without(const Numbers& micro_batches) {
  DeliveredEpoch epoch = whole();
  for (const std::int64_t micro_batch : micro_batches) {
    epoch.micro_batches.erase(micro_batch);
  }
  return epoch;
}

}  // namespace

TEST_CASE("the last global batch of an epoch may be smaller", "[checkpoint][certificate]") {
  const GlobalBatches batches = global_batches(whole(), 4);
  CHECK(batches.whole == std::vector{batch_of(0, {0, 1, 2, 3}), batch_of(1, {4, 5, 6})});
  CHECK_FALSE(batches.left_out);
  CHECK_NOTHROW(check_none_missing(batches));
  CHECK_NOTHROW(check_ended(whole()));
  CHECK(global_batches(without({0, 1}), 2, 2).whole ==
        std::vector{batch_of(1, {2, 3}), batch_of(2, {4, 5}), batch_of(3, {6})});
}

TEST_CASE("a global batch is omitted while a part of it may still be delivered",
          "[checkpoint][certificate]") {
  DeliveredEpoch epoch = whole();
  epoch.ended.erase(2);
  const GlobalBatches batches = global_batches(epoch, 4);  // without micro batches 8 and 11
  CHECK(batches.whole.size() == 2);
  CHECK(global_batches(epoch, 5).whole.size() == 1);
  CHECK(global_batches(epoch, 5).left_out == 1);
  CHECK_NOTHROW(check_none_missing(global_batches(epoch, 5)));
  CHECK_THROWS_WITH(check_ended(epoch), "the end of epoch 1 is missing, of 1 logical shards: 2");
}

TEST_CASE("missing micro batches are listed after the complete ones", "[checkpoint][certificate]") {
  const GlobalBatches batches = global_batches(without({4, 6}), 3);
  CHECK(batches.whole == std::vector{batch_of(0, {0, 1, 2})});
  CHECK(batches.missing == Numbers{4, 6});  // the end of logical shard 0 shows that 6 existed
  CHECK(batches.missing_count == 2);
  CHECK_THROWS_WITH(check_none_missing(batches), "2 micro batches of epoch 1 are missing: 4, 6");

  DeliveredEpoch gap{.logical_shards = 3, .micro_batches = {{0, {}}, {4'000'000'000'000, {}}}};
  gap.ended = {{2, 0}};
  const GlobalBatches far = global_batches(gap, 3);
  CHECK(far.missing.size() == 20);
  CHECK(far.missing[1] == 3);  // 2 belongs to logical shard 2
  CHECK(far.missing_count == 2'666'666'666'666);
  CHECK_THROWS_WITH(check_none_missing(far),
                    Catch::Contains(": 1, 3, 4, 6, 7, ") && Catch::Contains(", …"));
}

TEST_CASE("a micro batch after the end of its logical shard belongs to another job",
          "[checkpoint][certificate]") {
  DeliveredEpoch epoch = whole();
  CHECK_FALSE(after_end(epoch));
  epoch.ended[1] = 1;
  CHECK(after_end(epoch) == 4);
  CHECK_THROWS_WITH(global_batches(epoch, 3),
                    Catch::Contains("micro batch 4 of epoch 1 was delivered"));
}

TEST_CASE("jobs on any ranks have the same global batches", "[checkpoint][certificate]") {
  energon::TrainOptions options;
  options.batch_size = 2;
  const auto pipeline = energon::testing::in_memory({30, 25}, options);
  const auto batches_of = [&](int ranks, std::int64_t seed_offset) {
    DeliveredEpoch epoch{.logical_shards = 4};
    for (int rank = 0; rank < ranks; ++rank) {
      SavableDataLoader loader(pipeline, {.worker_config = {.rank = rank,
                                                            .world_size = ranks,
                                                            .seed_offset = seed_offset,
                                                            .logical_shards = 4}});
      for (int i = 0; i < 12 / ranks; ++i) {
        const auto batch = loader.next();
        epoch.micro_batches[batch->place->micro_batch(4)] = certificate_of_batch(*batch);
      }
    }
    return global_batches(epoch, 6).whole;
  };
  const auto alone = batches_of(1, 0);
  CHECK(alone.size() == 2);
  CHECK(batches_of(2, 0) == alone);
  CHECK(batches_of(4, 0) == alone);
  CHECK(batches_of(4, 1) != alone);
}
