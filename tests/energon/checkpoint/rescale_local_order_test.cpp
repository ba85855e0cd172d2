// A state without the turns of its logical shards continues with the same samples in another order
// (IBM-20).

#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/energon/checkpoint/keys.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"

namespace {

using energon::PipelineFactory;
using energon::SavableJobState;
using energon::TrainOptions;
using energon::testing::both;
using energon::testing::distinct;
using energon::testing::in_memory;
using energon::testing::Job;
using energon::testing::JobSpec;
using energon::testing::kEpochEnd;
using energon::testing::Keys;
using energon::testing::one_epoch;

// Keeps the division among ranks and workers, and removes the turns.
SavableJobState without_local_order(SavableJobState job) {
  for (energon::SavableDataLoaderState& rank : job.ranks) {
    for (energon::SavableDatasetCheckpoint& shard : rank.checkpoints) {
      shard.turn.count = 0;
    }
    rank.next_worker_id = energon::next_worker_id_of(rank);
  }
  return job;
}

void check_without_local_order(const JobSpec& spec, int stride) {
  TrainOptions options = one_epoch();
  options.shuffle_buffer_size = 5;
  const PipelineFactory pipeline = in_memory({60, 43}, options);
  int other_orders = 0;
  for (int steps = 0; steps <= 34; steps += stride) {
    CAPTURE(spec.num_workers, spec.logical_shards.value_or(0), steps);
    Job first(pipeline, spec);
    const Keys seen = first.steps(steps);
    const SavableJobState state = first.save();
    Job second(pipeline, spec);
    second.restore(without_local_order(state));
    const Keys rest = second.rest_of_epoch();
    Keys keys = both(seen, rest);
    std::erase(keys, kEpochEnd);
    CHECK(keys.size() == 103);
    CHECK(distinct(keys).size() == 103);
    CHECK(distinct(second.rest_of_epoch()).size() == 103);  // and the whole next epoch
    other_orders += rest != first.rest_of_epoch() ? 1 : 0;
  }
  CHECK(other_orders > 0);  // or nothing was removed
}

TEST_CASE("IBM-20 without the local order the rest is complete, in another order",
          "[rescale][ibm]") {
  check_without_local_order({.world_size = 3, .logical_shards = 12}, 1);
}

TEST_CASE("IBM-20 also with workers, with and without logical shards", "[rescale][ibm][fork]") {
  check_without_local_order({.world_size = 2, .num_workers = 2, .logical_shards = 8}, 7);
  check_without_local_order({.world_size = 2, .num_workers = 2}, 7);
}

}  // namespace
