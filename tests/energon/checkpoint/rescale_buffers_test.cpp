// Shuffle buffers move to other ranks unchanged (IBM-21).

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/checkpoint/rescale.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/sample/sample_ref.h"
#include "tests/energon/checkpoint/keys.h"
#include "tests/energon/loader/job.h"

namespace {

using energon::PipelineFactory;
using energon::SavableJobState;
using energon::TrainOptions;
using energon::Uneven;
using energon::testing::both;
using energon::testing::in_memory;
using energon::testing::Job;
using energon::testing::Keys;
using energon::testing::one_epoch;

// The references in the shuffle buffer of each logical shard of `job`, by logical shard.
std::map<int, std::vector<std::int64_t>> buffers_of(const SavableJobState& job) {
  std::map<int, std::vector<std::int64_t>> buffers;
  for (const energon::SavableDataLoaderState& rank : job.ranks) {
    for (const energon::SavableDatasetCheckpoint& shard : rank.checkpoints) {
      const energon::State* state = &*shard.state;
      while (state->type != "ShuffleBuffer") {
        state = &state->children.at(0);
      }
      std::vector<std::int64_t>& indexes = buffers[shard.logical_shard];
      for (const auto& ref : energon::unpack_sample_refs(state->bytes("references"), 1000)) {
        indexes.push_back(ref.index);
      }
    }
  }
  return buffers;
}

std::vector<std::size_t> buffered_by_rank(const SavableJobState& job) {
  std::vector<std::size_t> sizes;
  for (const energon::SavableDataLoaderState& rank : job.ranks) {
    std::size_t size = 0;
    for (const auto& [shard, buffer] : buffers_of({.ranks = {rank}})) {
      size += buffer.size();
    }
    sizes.push_back(size);
  }
  return sizes;
}

// On two ranks, the buffers are unchanged, and the rest of the epoch contains the samples that were
// not seen.
void check_buffers(const PipelineFactory& pipeline, const SavableJobState& state, int shards,
                   Keys seen, std::size_t samples) {
  const SavableJobState rescaled = rescale(state, {.world_size = 2, .uneven = Uneven::kSpread});
  CHECK(buffers_of(rescaled) == buffers_of(state));
  Job job(pipeline, {.world_size = 2, .logical_shards = shards, .allow_uneven = true});
  job.restore(rescaled);
  const Keys rest = job.rest_of_epoch();
  std::multiset<std::string> expected;
  for (std::size_t i = 0; i < samples; ++i) {
    expected.insert(std::to_string(i));
  }
  const Keys all = both(std::move(seen), rest);
  CHECK(std::multiset<std::string>(all.begin(), all.end()) == expected);
}

TEST_CASE("IBM-21 three buffers of four references become two of six, in order", "[rescale][ibm]") {
  // Each rank has two logical shards with two references in their buffers.
  TrainOptions options = one_epoch();
  options.shuffle_buffer_size = 3;  // two are left after a draw
  const PipelineFactory pipeline = in_memory({14, 19}, options);
  for (int steps = 1; steps < 6; ++steps) {
    CAPTURE(steps);
    Job job(pipeline, {.world_size = 3, .logical_shards = 6});
    const Keys seen = job.steps(steps);
    const SavableJobState state = job.save();
    // A shard that has not delivered a sample yet has an empty buffer.
    CHECK(buffered_by_rank(state) ==
          (steps == 1 ? std::vector<std::size_t>{2, 2, 2} : std::vector<std::size_t>{4, 4, 4}));
    if (steps > 1) {
      CHECK(buffered_by_rank(rescale(state, {.world_size = 2})) == std::vector<std::size_t>{6, 6});
    }
    check_buffers(pipeline, state, 6, seen, 33);
  }
}

TEST_CASE("IBM-21 buffers of 4, 1 and 7 references lose and repeat nothing on two ranks",
          "[rescale][ibm]") {
  TrainOptions options = one_epoch();
  options.shuffle_buffer_size = 8;
  const PipelineFactory pipeline = in_memory({14, 19}, options);  // 11 a logical shard
  Keys seen;
  SavableJobState state;
  for (const auto& [rank, taken] : {std::pair(0, 7), {1, 10}, {2, 2}}) {
    energon::SavableDataLoader loader(
        pipeline, {.worker_config = {.rank = rank, .world_size = 3, .logical_shards = 3}});
    for (int i = 0; i < taken; ++i) {
      seen.emplace_back(loader.next()->keys.front());
    }
    state.ranks.push_back(loader.save_state_rank());
  }
  CHECK(buffered_by_rank(state) == std::vector<std::size_t>{4, 1, 7});
  check_buffers(pipeline, state, 3, seen, 33);
}

}  // namespace
