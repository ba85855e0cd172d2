// The layouts and micro batch sizes that rescale() accepts.

#include "energon/checkpoint/rescale.h"

#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/energon/checkpoint/keys.h"
#include "tests/energon/loader/job.h"

namespace {

using energon::Error;
using energon::SavableJobState;
using energon::TrainOptions;
using energon::Uneven;
using energon::testing::in_memory;
using energon::testing::Job;
using energon::testing::JobSpec;
using energon::testing::Keys;
using energon::testing::one_epoch;

TEST_CASE("impossible layouts are refused with the possible ones", "[rescale]") {
  Job job(in_memory({100}, one_epoch()), {.world_size = 2, .logical_shards = 12});
  const SavableJobState state = job.save();
  CHECK_THROWS_WITH(rescale(state, {.world_size = 5}),
                    Catch::Contains("12 logical shards") && Catch::Contains("3, 4, 6, 12"));
  CHECK_THROWS_WITH(rescale(state, {.world_size = 6, .num_workers = 3}),
                    Catch::Contains("18 workers") && Catch::Contains("at most 12"));
  CHECK_THROWS_AS(rescale(state, {.world_size = 0}), Error);
  CHECK(rescale(state, {.world_size = 5, .uneven = Uneven::kSpread}).ranks.size() == 5);
}

TEST_CASE("any micro batch size can follow when batches are the last stage", "[rescale][fork]") {
  for (const std::int64_t interval : {1, 4}) {
    TrainOptions options;
    options.batch_size = 4;
    const auto keys_of = [](const Keys& batches) {
      std::string joined;
      for (const std::string& batch : batches) {
        joined += batch + ",";
      }
      return joined;
    };
    const JobSpec layout{.world_size = 1,
                         .num_workers = 1,
                         .logical_shards = 1,
                         .checkpoint_every_batches = interval};
    Job first(in_memory({60, 40}, options), layout);
    const std::string before = keys_of(first.steps(3));
    const SavableJobState state = first.save();
    const std::string expected = before + keys_of(first.steps(15));
    for (const std::int64_t size : {1, 3, 5, 8}) {
      CAPTURE(size, interval);
      options.batch_size = size;
      Job second(in_memory({60, 40}, options), layout);
      second.restore(rescale(state, {.world_size = 1, .micro_batch_size = size}));
      const std::string found = before + keys_of(second.steps(60 / size));
      CHECK(found == expected.substr(0, found.size()));
    }
  }
}

}  // namespace
