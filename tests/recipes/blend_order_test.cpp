// The order of blends at default logical shards, against vectors from an emulator of Energon's
// algorithms (energon.md 2.1 to 2.6) that is independent of this library: rotation offsets, leaf
// orders and draws of the blend and of the shuffle buffer, all from the seed of the worker.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/recipes/streams.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/pipeline.h"

using energon::Mixing;
using energon::PipelineData;
using energon::TrainOptions;
using energon::WorkerConfig;
using energon::testing::kFx55;
using energon::testing::kTens;
using energon::testing::numbered_dataset;
using energon::testing::Stream;
using energon::testing::TempDir;
using Refs = std::vector<std::pair<int, int>>;  // leaf, sample

namespace {

// Three datasets of 55, 55 and 14 samples.
class Three {
 public:
  PipelineData weighted() const {
    PipelineData data = all();
    data.mixing = Mixing::kWeighted;
    data.leaves[0].weight = 0.4;
    data.leaves[1].weight = 0.5;
    data.leaves[2].weight = 0.1;
    return data;
  }
  PipelineData epochized() const {
    PipelineData data = all();
    data.mixing = Mixing::kEpochized;
    data.leaves[1].repetitions = 0.7;
    data.leaves[2].repetitions = 2;
    return data;
  }

 private:
  PipelineData all() const {
    return PipelineData(
        {numbered_dataset(a_, kTens), numbered_dataset(b_, kFx55), numbered_dataset(c_, {7, 7})});
  }

  TempDir a_, b_, c_;
};

// The first items of the worker that runs logical shard `shard` of `shards`.
Refs take(PipelineData data, TrainOptions options, int shards, int shard, std::size_t count) {
  const WorkerConfig config{.num_workers = shards == 1 ? 0 : shards};
  Stream stream(energon::train_pipeline(std::move(data), std::move(options)), config, shard);
  Refs refs;
  for (const auto& sample : stream.take(count)) {
    const auto key = energon::split_key(sample.restore_key, energon::Stage::kWebdataset, 2, 0);
    refs.emplace_back(static_cast<int>(key.integers[0]), static_cast<int>(key.integers[1]));
  }
  return refs;
}

}  // namespace

TEST_CASE("a weighted blend has Energon's order", "[recipes][blend]") {
  const Three three;
  CHECK(take(three.weighted(), {.max_samples_per_sequence = 4}, 1, 0, 40) ==
        Refs{{0, 15}, {1, 41}, {1, 11}, {1, 21}, {1, 26}, {0, 16}, {2, 10}, {0, 50},
             {1, 27}, {1, 4},  {1, 7},  {1, 8},  {0, 0},  {1, 9},  {2, 11}, {0, 20},
             {0, 10}, {1, 12}, {1, 42}, {1, 10}, {1, 31}, {1, 43}, {0, 11}, {1, 32},
             {1, 22}, {0, 30}, {1, 46}, {2, 3},  {1, 23}, {2, 0},  {1, 33}, {0, 1},
             {0, 45}, {2, 4},  {0, 46}, {1, 2},  {1, 28}, {0, 51}, {1, 24}, {1, 0}});
  CHECK(take(three.weighted(), {.max_samples_per_sequence = 4}, 2, 1, 40) ==
        Refs{{0, 40}, {0, 28}, {1, 41}, {2, 10}, {0, 41}, {1, 27}, {1, 42}, {1, 31},
             {0, 30}, {0, 31}, {1, 32}, {1, 46}, {0, 45}, {1, 43}, {0, 42}, {0, 32},
             {2, 11}, {0, 50}, {1, 33}, {1, 51}, {0, 35}, {2, 7},  {0, 36}, {2, 12},
             {1, 36}, {1, 37}, {0, 43}, {0, 33}, {0, 46}, {0, 47}, {1, 44}, {1, 34},
             {0, 34}, {0, 44}, {1, 47}, {2, 8},  {0, 37}, {0, 48}, {1, 48}, {1, 35}});
  CHECK(take(three.weighted(), {.max_samples_per_sequence = 4}, 4, 2, 40) ==
        Refs{{0, 40}, {1, 36}, {0, 30}, {1, 37}, {0, 35}, {1, 27}, {2, 7},  {1, 38},
             {2, 8},  {1, 31}, {1, 32}, {0, 28}, {0, 29}, {1, 33}, {1, 34}, {2, 9},
             {0, 36}, {2, 7},  {0, 37}, {1, 35}, {0, 38}, {0, 31}, {1, 28}, {1, 29},
             {1, 39}, {0, 32}, {1, 40}, {1, 30}, {1, 36}, {0, 41}, {1, 31}, {0, 39},
             {0, 33}, {1, 37}, {0, 34}, {0, 35}, {0, 36}, {0, 40}, {1, 38}, {0, 30}});
}

TEST_CASE("a weighted blend with a shuffle buffer has Energon's order", "[recipes][blend]") {
  const Three three;
  const TrainOptions options{.shuffle_buffer_size = 10, .max_samples_per_sequence = 4};
  CHECK(take(three.weighted(), options, 1, 0, 24) ==
        Refs{{0, 15}, {1, 41}, {0, 16}, {1, 26}, {1, 9},  {1, 4},  {2, 11}, {1, 7},
             {0, 50}, {1, 8},  {1, 12}, {0, 0},  {1, 31}, {1, 43}, {1, 27}, {0, 11},
             {0, 10}, {1, 32}, {1, 11}, {0, 20}, {1, 10}, {1, 33}, {1, 42}, {0, 30}});
  CHECK(take(three.weighted(), options, 2, 1, 24) ==
        Refs{{0, 31}, {1, 42}, {1, 31}, {0, 45}, {0, 41}, {1, 43}, {1, 27}, {2, 10},
             {0, 30}, {0, 50}, {0, 42}, {1, 41}, {0, 40}, {2, 11}, {1, 32}, {2, 7},
             {2, 12}, {1, 51}, {0, 36}, {0, 33}, {1, 37}, {0, 43}, {0, 28}, {1, 36}});
  CHECK(take(three.weighted(), options, 4, 2, 24) ==
        Refs{{1, 38}, {1, 36}, {0, 40}, {1, 31}, {2, 8},  {1, 33}, {1, 37}, {1, 32},
             {2, 7},  {0, 35}, {1, 27}, {2, 9},  {0, 38}, {0, 29}, {0, 37}, {0, 36},
             {1, 35}, {0, 30}, {0, 31}, {1, 36}, {0, 41}, {1, 39}, {1, 40}, {1, 31}});
}

TEST_CASE("an epochized blend has Energon's order and exact counts", "[recipes][blend]") {
  const Three three;
  const auto count = [](const Refs& refs, int leaf) {
    return std::count_if(refs.begin(), refs.end(),
                         [leaf](const auto& ref) { return ref.first == leaf; });
  };
  struct Case {
    int shards, shard;
    Refs first;
    std::vector<std::ptrdiff_t> counts;
  };
  const std::vector<Case> cases = {
      {1,
       0,
       {{0, 10}, {1, 2}, {1, 31}, {1, 11}, {1, 12}, {0, 40}, {2, 7},  {0, 11},
        {1, 21}, {1, 4}, {2, 8},  {2, 9},  {0, 20}, {1, 0},  {2, 10}, {0, 50},
        {0, 41}, {1, 7}, {1, 8},  {1, 3},  {1, 51}, {0, 42}, {0, 30}, {1, 52}},
       {55, 38, 28}},
      {2,
       1,
       {{0, 50}, {0, 30}, {1, 51}, {2, 7},  {0, 51}, {2, 8},  {0, 40}, {2, 9},
        {0, 52}, {0, 31}, {2, 10}, {2, 11}, {0, 32}, {1, 31}, {0, 28}, {0, 53},
        {2, 12}, {0, 33}, {1, 52}, {1, 41}, {0, 41}, {2, 13}, {0, 34}, {2, 7}},
       {27, 19, 14}},
      {4,
       2,
       {{0, 30}, {1, 31}, {0, 31}, {0, 40}, {0, 32}, {1, 32}, {2, 7},  {2, 8},
        {2, 9},  {1, 33}, {1, 34}, {0, 33}, {0, 34}, {1, 35}, {1, 27}, {2, 7},
        {0, 35}, {2, 8},  {0, 36}, {1, 28}, {0, 37}, {0, 28}, {1, 29}, {2, 9}},
       {14, 9, 6}},
  };
  for (const Case& c : cases) {
    const Refs all = take(three.epochized(), {.repeat = false}, c.shards, c.shard, 1000);
    INFO(fmt::format("logical shard {} of {}", c.shard, c.shards));
    for (int leaf = 0; leaf < 3; ++leaf) {
      CHECK(count(all, leaf) == c.counts[static_cast<std::size_t>(leaf)]);
    }
    CHECK(Refs(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(c.first.size())) == c.first);
  }
}
