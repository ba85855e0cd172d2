// A rescaled job completes its epoch: every part of every sample is delivered once. Acceptance
// tests of rescalable datasets (IBM-05, 07 … 11, 13).

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/checkpoint/rescale.h"
#include "tests/energon/checkpoint/keys.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"

namespace {

using energon::EpochPolicy;
using energon::PipelineFactory;
using energon::SavableJobState;
using energon::TrainOptions;
using energon::Uneven;
using energon::testing::both;
using energon::testing::distinct;
using energon::testing::in_memory;
using energon::testing::Job;
using energon::testing::JobSpec;
using energon::testing::kEpochEnd;
using energon::testing::Keys;
using energon::testing::one_epoch;

// A sample of 100 units in three parts, at most 40 units each.
TrainOptions in_parts() {
  TrainOptions options = one_epoch();
  options.task_encoder.encode_sample = energon::FlatMapFunction([](const energon::Sample& sample,
                                                                   energon::CallContext&) {
    return [sample, offset = 0]() mutable -> std::optional<energon::Sample> {
      if (offset > 80) {
        return std::nullopt;
      }
      energon::Sample part = sample;
      part.keys = {fmt::format("{}@{}", sample.keys.front(), std::exchange(offset, offset + 40))};
      return part;
    };
  });
  return options;
}

TEST_CASE("IBM-05 no part is delivered again after a restore", "[rescale][ibm]") {
  const PipelineFactory pipeline = in_memory({100}, in_parts());
  Job first(pipeline, {.world_size = 2, .logical_shards = 8});
  const Keys seen = first.steps(50);
  Job second(pipeline, {.world_size = 2, .logical_shards = 8});
  second.restore(first.save());
  const Keys keys = both(seen, second.steps(100));
  CHECK(keys.size() == 300);
  CHECK(distinct(keys).size() == 300);
}

TEST_CASE("IBM-07 the epoch is completed, then the next one has all parts again",
          "[rescale][ibm]") {
  const JobSpec spec{.world_size = 2, .logical_shards = 8, .epoch_policy = EpochPolicy::kLoop};
  for (const bool is_reshuffled : {true, false}) {
    CAPTURE(is_reshuffled);
    TrainOptions options = in_parts();
    options.shuffle_buffer_size = is_reshuffled ? 10 : 0;
    const PipelineFactory pipeline = in_memory({100}, options);
    Job first(pipeline, spec);
    const Keys seen = first.steps(37);
    Job second(pipeline, spec);
    second.restore(first.save());
    const Keys rest = second.steps(113);
    CHECK(both(seen, rest).size() == 300);
    CHECK(distinct(both(seen, rest)).size() == 300);
    const Keys next = second.steps(150);
    CHECK(distinct(next).size() == 300);
    // The order is the same in every epoch, so the samples seen before the save follow right after
    // the end.
    CHECK((Keys(next.begin(), next.begin() + 74) == seen) == !is_reshuffled);
    if (!is_reshuffled) {
      CHECK(distinct(both(rest, Keys(next.begin(), next.begin() + 74))).size() == 300);
    }
  }
}

TEST_CASE("IBM-08 a partly delivered sample is completed once", "[rescale][ibm]") {
  const PipelineFactory pipeline = in_memory({100}, in_parts());
  Job first(pipeline, {.world_size = 2, .logical_shards = 8});
  const Keys seen = first.steps(50);
  const std::set<std::string> before = distinct(seen);
  Job second(pipeline, {.world_size = 4, .logical_shards = 8});
  second.restore(rescale(first.save(), {.world_size = 4}));
  const Keys rest = second.rest_of_epoch();
  CHECK(rest.size() == 200);
  CHECK(std::none_of(rest.begin(), rest.end(),
                     [&](const std::string& part) { return before.contains(part); }));
  CHECK(distinct(both(seen, rest)).size() == 300);
}

TEST_CASE("IBM-09 ranks stay disjoint on all layouts", "[rescale][ibm]") {
  const PipelineFactory pipeline = in_memory({100}, in_parts());
  for (const int ranks : {1, 2, 3, 6, 12}) {
    CAPTURE(ranks);
    Job first(pipeline,
              {.world_size = 4, .logical_shards = 12, .epoch_policy = EpochPolicy::kLoop});
    first.steps(50);
    Job second(pipeline,
               {.world_size = ranks, .logical_shards = 12, .epoch_policy = EpochPolicy::kLoop});
    second.restore(rescale(first.save(), {.world_size = ranks}));
    std::map<std::string, int> owner;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int i = 0; i < 300 * 5 / 4 / ranks + 40; ++i) {
        const std::string part = second.next(rank);
        CHECK(owner.emplace(part, rank).first->second == rank);
      }
    }
    CHECK(owner.size() == 300);
  }
}

TEST_CASE("IBM-10 uneven layouts, one after the other, deliver each key once", "[rescale][ibm]") {
  const PipelineFactory pipeline = in_memory({60, 40}, one_epoch());
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    Keys keys;
    std::optional<SavableJobState> state;
    for (const int ranks : {4, 3, 7, 4}) {
      CAPTURE(seed, ranks);
      const JobSpec spec{.world_size = ranks, .logical_shards = 10, .allow_uneven = true};
      Job job(pipeline, spec);
      if (state) {
        state = rescale(*state, {.world_size = ranks, .uneven = Uneven::kSpread});
        job.restore(*state);
        std::size_t least = 10;
        std::size_t most = 0;
        for (const auto& rank : state->ranks) {
          least = std::min(least, rank.checkpoints.size());
          most = std::max(most, rank.checkpoints.size());
        }
        CHECK(most - least <= 1);
      }
      for (std::uint32_t step = random() % 6; step > 0; --step) {
        for (int rank = 0; rank < ranks; ++rank) {
          keys.push_back(job.next(rank));
        }
      }
      state = job.save();
    }
    Job last(pipeline, {.world_size = 1, .logical_shards = 10});
    last.restore(rescale(*state, {.world_size = 1}));
    keys = both(keys, last.rest_of_epoch());
    CHECK(keys.size() == 100);
    CHECK(distinct(keys).size() == 100);
  }
}

TEST_CASE("IBM-11 undelivered samples are delivered before the epoch ends, on other layouts",
          "[rescale][ibm]") {
  for (const int shards : {555, 721, 300}) {
    const PipelineFactory pipeline = in_memory({500, 500}, in_parts());
    for (const int before : {1, 2, 6}) {
      Job first(pipeline, {.world_size = before, .logical_shards = shards, .allow_uneven = true});
      const Keys seen = first.steps(1000 / before);
      const SavableJobState state = first.save();
      for (const int after : {3, 4}) {
        CAPTURE(shards, before, after);
        const SavableJobState rescaled =
            rescale(state, {.world_size = after, .uneven = Uneven::kSpread});
        JobSpec spec{.world_size = after, .logical_shards = shards, .allow_uneven = true};
        Job strict(pipeline, spec);
        strict.restore(rescaled);
        const Keys rest = strict.rest_of_epoch();
        CHECK(seen.size() + rest.size() == 3000);
        CHECK(distinct(both(seen, rest)).size() == 3000);

        spec.epoch_policy = EpochPolicy::kLoop;
        Job loop(pipeline, spec);
        loop.restore(rescaled);
        const auto up = [](std::size_t dividend, int divisor) {
          return (static_cast<int>(dividend) + divisor - 1) / divisor;
        };
        const Keys soon = loop.steps(up(3000 - seen.size(), after) + 2 * up(3000, shards) * after);
        CHECK(distinct(both(seen, soon)).size() == 3000);
      }
    }
  }
}

TEST_CASE("IBM-13 a rank with nothing left reports the end of the epoch, or begins the next",
          "[rescale][ibm]") {
  const PipelineFactory pipeline = in_memory({24}, one_epoch());
  for (const int ranks : {1, 3, 6}) {
    for (int k = 1; k <= 11; ++k) {
      CAPTURE(ranks, k);
      Job first(pipeline, {.world_size = 2, .logical_shards = 6});
      const Keys seen = first.steps(k);
      const SavableJobState state = rescale(first.save(), {.world_size = ranks});
      Job strict(pipeline, {.world_size = ranks, .logical_shards = 6});
      strict.restore(state);
      CHECK(distinct(both(seen, strict.rest_of_epoch())).size() == 24);
      CHECK(distinct(strict.rest_of_epoch()).size() == 24);  // the next epoch
      Job loop(pipeline,
               {.world_size = ranks, .logical_shards = 6, .epoch_policy = EpochPolicy::kLoop});
      loop.restore(state);
      for (const std::string& key : loop.steps(30)) {
        CHECK(key != kEpochEnd);
      }
    }
  }
}

}  // namespace
