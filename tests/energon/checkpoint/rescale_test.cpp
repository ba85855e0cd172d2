// Rescaling a job: numbered acceptance tests of rescalable datasets (IBM-05, 07 … 11, 13, 20,
// 21),
// of Energon's redistribution (ENE-15), of aggregation (CER-15) and across systems.

#include "energon/checkpoint/rescale.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/sample_ref.h"
#include "io/error.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"

namespace {

using energon::EpochPolicy;
using energon::Error;
using energon::ErrorCode;
using energon::PipelineFactory;
using energon::SavableJobState;
using energon::TrainOptions;
using energon::Uneven;
using energon::testing::in_memory;
using energon::testing::Job;
using energon::testing::JobSpec;
using energon::testing::kEpochEnd;
using energon::testing::LoaderFixture;
using energon::testing::one_epoch;
using energon::testing::take;

using Keys = std::vector<std::string>;

// A sample of 100 units in three parts, at most 40 units each.
TrainOptions in_parts() {
  TrainOptions options = one_epoch();
  options.task_encoder.encode_sample =
      energon::FlatMapFunction([](const energon::Sample& sample, energon::CallContext&) {
        return [sample, offset = 0]() mutable -> std::optional<energon::Sample> {
          if (offset > 80) {
            return std::nullopt;
          }
          energon::Sample part = sample;
          part.keys.front() += fmt::format("@{}", std::exchange(offset, offset + 40));
          return part;
        };
      });
  return options;
}

std::set<std::string> distinct(const Keys& keys) { return {keys.begin(), keys.end()}; }

Keys both(Keys first, const Keys& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST_CASE("IBM-05 after a restore no part is seen again", "[rescale][ibm]") {
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
    // The same order in every epoch: what was seen before the save comes again right after the end.
    CHECK((Keys(next.begin(), next.begin() + 74) == seen) == !is_reshuffled);
    if (!is_reshuffled) {
      CHECK(distinct(both(rest, Keys(next.begin(), next.begin() + 74))).size() == 300);
    }
  }
}

TEST_CASE("IBM-08 a sample that was half emitted is completed once", "[rescale][ibm]") {
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
          least = std::min(least, rank.streams.size());
          most = std::max(most, rank.streams.size());
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

TEST_CASE("IBM-11 what was not seen comes before the epoch ends, on other layouts",
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

TEST_CASE("IBM-13 a rank with nothing left says that the epoch is over, or begins the next",
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

TEST_CASE("ENE-15 one of Energon's layouts becomes another one", "[rescale][ene][fork]") {
  TrainOptions options;
  options.batch_size = 2;
  options.shuffle_buffer_size = 10;
  const LoaderFixture fixture(options);
  // Each rank takes micro batches until 4 samples of each of the 4 workers are together.
  const auto global_batches = [&](Job& job, int steps, int batches_of_rank) {
    std::vector<std::multiset<std::string>> result;
    for (int step = 0; step < steps; ++step) {
      std::multiset<std::string> keys;
      for (int i = 0; i < batches_of_rank; ++i) {
        for (int rank = 0; rank < job.world_size(); ++rank) {
          keys.insert(job.next(rank));
        }
      }
      result.push_back(std::move(keys));
    }
    return result;
  };
  Job first(fixture.pipeline(), {.world_size = 2, .num_workers = 2});
  first.steps(20);
  const SavableJobState state = first.save();
  const auto expected = global_batches(first, 30, 2);
  for (const auto& [ranks, workers] : {std::pair(1, 4), {4, 1}, {2, 2}}) {
    CAPTURE(ranks, workers);
    const SavableJobState rescaled = rescale(state, {.world_size = ranks, .num_workers = workers});
    CHECK_FALSE(rescaled.ranks.front().config->contains("logical_shards"));
    Job job(fixture.pipeline(), {.world_size = ranks, .num_workers = workers});
    job.restore(rescaled);
    CHECK(global_batches(job, 30, 4 / ranks) == expected);
  }
  options.batch_size = 1;
  const LoaderFixture singles(options);
  Job halved(singles.pipeline(), {.world_size = 2, .num_workers = 2});
  CHECK_THROWS_WITH(rescale(state, {.world_size = 2, .num_workers = 2, .micro_batch_size = 3}),
                    Catch::Contains("2, expected 3") && Catch::Contains("divisor"));
  halved.restore(rescale(state, {.world_size = 2, .num_workers = 2, .micro_batch_size = 1}));
  std::multiset<std::string> samples;
  for (int i = 0; i < 4; ++i) {
    for (const std::string& key : halved.steps(1)) {
      samples.insert(key);
    }
  }
  std::multiset<std::string> expected_samples;
  for (const std::string& pair : expected.front()) {
    expected_samples.insert(pair.substr(0, pair.find(',')));
    expected_samples.insert(pair.substr(pair.find(',') + 1));
  }
  CHECK(samples == expected_samples);
}

TEST_CASE("ENE-15 a total of workers that does not fit is an error with the layouts that do",
          "[rescale][ene][fork]") {
  TrainOptions options;
  options.batch_size = 2;
  const LoaderFixture fixture(options);
  Job job(fixture.pipeline(), {.world_size = 2, .num_workers = 2});
  job.steps(20);
  CHECK_THROWS_WITH(rescale(job.save(), {.world_size = 3, .num_workers = 1}),
                    Catch::Contains("4 logical shards") && Catch::Contains("3"));
  CHECK_THROWS_WITH(rescale(job.save(), {.world_size = 2, .num_workers = 3}),
                    Catch::Contains("4 logical shards"));
}

TEST_CASE("ENE-15 at a step that is no multiple of the workers nothing is lost or comes twice",
          "[rescale][ene][fork]") {
  const PipelineFactory pipeline = in_memory({40, 17, 23}, one_epoch());
  for (const std::int64_t steps : {1, 3, 7}) {
    for (const auto& [ranks, workers] : {std::pair(1, 4), {4, 1}, {2, 2}}) {
      CAPTURE(steps, ranks, workers);
      Job first(pipeline, {.world_size = 2, .num_workers = 2});
      Keys all = first.steps(steps);
      Job second(pipeline, {.world_size = ranks, .num_workers = workers});
      second.restore(rescale(first.save(), {.world_size = ranks, .num_workers = workers}));
      for (const std::string& key : second.rest_of_epoch()) {
        all.push_back(key);
      }
      std::multiset<std::string> samples;
      for (const std::string& batch : all) {
        std::size_t begin = 0;
        while (begin <= batch.size() && batch != kEpochEnd) {
          const std::size_t end = std::min(batch.find(',', begin), batch.size());
          samples.insert(batch.substr(begin, end - begin));
          begin = end + 1;
        }
      }
      CHECK(samples.size() == 80);
      CHECK(std::set<std::string>(samples.begin(), samples.end()).size() == 80);
    }
  }
}

// Which rank and worker has what stays; whose turn it is does not.
SavableJobState without_local_order(SavableJobState job) {
  for (energon::SavableDataLoaderState& rank : job.ranks) {
    rank.next_worker_id = 0;
    for (energon::SavableDatasetCheckpoint& shard : rank.streams) {
      shard.turn.count = 0;
    }
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

// The references in the shuffle buffer of each logical shard of `job`, by logical shard.
std::map<int, std::vector<std::int64_t>> buffers_of(const SavableJobState& job) {
  std::map<int, std::vector<std::int64_t>> buffers;
  for (const energon::SavableDataLoaderState& rank : job.ranks) {
    for (const energon::SavableDatasetCheckpoint& shard : rank.streams) {
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

// On two ranks the buffers are what they were, and the rest of the epoch is what was not seen.
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
  options.shuffle_buffer_size = 3;  // after a draw two are left
  const PipelineFactory pipeline = in_memory({14, 19}, options);
  for (int steps = 1; steps < 6; ++steps) {
    CAPTURE(steps);
    Job job(pipeline, {.world_size = 3, .logical_shards = 6});
    const Keys seen = job.steps(steps);
    const SavableJobState state = job.save();
    // A shard that gave nothing yet has nothing in its buffer.
    CHECK(buffered_by_rank(state) ==
          (steps == 1 ? std::vector<std::size_t>{2, 2, 2} : std::vector<std::size_t>{4, 4, 4}));
    if (steps > 1) {
      CHECK(buffered_by_rank(rescale(state, {.world_size = 2})) == std::vector<std::size_t>{6, 6});
    }
    check_buffers(pipeline, state, 6, seen, 33);
  }
}

TEST_CASE("IBM-21 buffers of 4, 1 and 7 references lose and double nothing on two ranks",
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
      seen.push_back(loader.next()->keys.front());
    }
    state.ranks.push_back(loader.save_state_rank());
  }
  CHECK(buffered_by_rank(state) == std::vector<std::size_t>{4, 1, 7});
  check_buffers(pipeline, state, 3, seen, 33);
}

TEST_CASE("layouts that cannot be are refused with those that can", "[rescale]") {
  Job job(in_memory({100}, one_epoch()), {.world_size = 2, .logical_shards = 12});
  const SavableJobState state = job.save();
  CHECK_THROWS_WITH(rescale(state, {.world_size = 5}),
                    Catch::Contains("12 logical shards") && Catch::Contains("3, 4, 6, 12"));
  CHECK_THROWS_WITH(rescale(state, {.world_size = 6, .num_workers = 3}),
                    Catch::Contains("18 workers") && Catch::Contains("at most 12"));
  CHECK_THROWS_AS(rescale(state, {.world_size = 0}), Error);
  CHECK(rescale(state, {.world_size = 5, .uneven = Uneven::kSpread}).ranks.size() == 5);
}

TEST_CASE("any micro batch size can follow when batches are the last stage", "[rescale]") {
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
    Job first(in_memory({60, 40}, options), {.world_size = 1, .logical_shards = 1});
    const std::string before = keys_of(first.steps(3));
    const SavableJobState state = first.save();
    const std::string expected = before + keys_of(first.steps(15));
    for (const std::int64_t size : {1, 3, 5, 8}) {
      CAPTURE(size, interval);
      options.batch_size = size;
      Job second(in_memory({60, 40}, options), {.world_size = 1, .logical_shards = 1});
      second.restore(rescale(state, {.world_size = 1, .micro_batch_size = size}));
      const std::string found = before + keys_of(second.steps(60 / size));
      CHECK(found == expected.substr(0, found.size()));
    }
  }
}

TEST_CASE("CER-15 the ranks of a job may come in any order, but all, once, and of one step",
          "[rescale][cer]") {
  const PipelineFactory pipeline = in_memory({100}, one_epoch());
  Job job(pipeline, {.world_size = 3, .logical_shards = 6});
  job.steps(2);
  const SavableJobState state = job.save();
  job.steps(1);
  const SavableJobState later = job.save();
  const auto& [a, b, c] = std::tie(state.ranks[0], state.ranks[1], state.ranks[2]);
  CHECK(energon::merge_states({c, a, b}) == state);
  CHECK_THROWS_WITH(energon::merge_states({a, c}), Catch::Contains("missing: 1"));
  CHECK_THROWS_WITH(energon::merge_states({a, b, b, c}),
                    Catch::Contains("rank 1 is there 2 times"));
  CHECK_THROWS_WITH(energon::merge_states({a, b, later.ranks[2]}),
                    Catch::Contains("different steps of epoch 0: 2 at ranks 0, 1, 3 at ranks 2"));
  CHECK_THROWS_AS(energon::merge_states({}), Error);
}

TEST_CASE("X-06 rescale and restore leave the state that they are given as it is",
          "[rescale][cross]") {
  TrainOptions options;
  options.batch_size = 2;
  const PipelineFactory pipeline = in_memory({60}, options);
  Job job(pipeline, {.world_size = 2, .logical_shards = 4});
  job.steps(5);
  const SavableJobState state = job.save();
  const std::string bytes = energon::encode_job_state(state);
  Keys expected;
  for (int i = 0; i < 2; ++i) {
    Job other(pipeline, {.world_size = 4, .logical_shards = 4});
    other.restore(rescale(state, {.world_size = 4}));
    const Keys keys = other.steps(7);
    expected = i == 0 ? keys : expected;
    CHECK(keys == expected);
    CHECK(energon::encode_job_state(state) == bytes);
  }
}

TEST_CASE("X-06 what becomes of a state after it was loaded, or saved, changes no loader",
          "[rescale][cross][fork]") {
  TrainOptions options;
  options.batch_size = 2;
  options.shuffle_buffer_size = 5;
  const PipelineFactory pipeline = in_memory({60}, options);
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const energon::LoaderOptions settings{
        .worker_config = {.num_workers = workers, .logical_shards = 4},
        .checkpoint_every_batches = 1};
    energon::SavableDataLoader first(pipeline, settings);
    take(first, 9);
    energon::SavableDataLoaderState state = first.save_state_rank();
    const energon::SavableDataLoaderState kept = state;
    const auto ruin = [](energon::SavableDataLoaderState& ruined) {
      for (auto& stream : ruined.streams) {
        stream.state.reset();
        stream.index = stream.offset = stream.epoch = 77;
        stream.turn = {};
      }
      ruined.streams.pop_back();
      ruined.config = energon::Config("another");
      ruined.epoch = ruined.batch_index = 99;
    };
    energon::SavableDataLoader second(pipeline, settings);
    energon::SavableDataLoader third(pipeline, settings);
    second.restore_state_rank(state);
    third.restore_state_rank(state);  // the same object, twice
    ruin(state);                      // before either begins
    const auto expected = take(first, 12);
    CHECK(take(second, 12) == expected);
    CHECK(third.save_state_rank() == kept);
    CHECK(take(third, 12) == expected);
    energon::SavableDataLoaderState saved = second.save_state_rank();
    const energon::SavableDataLoaderState as_saved = saved;
    ruin(saved);
    CHECK(second.save_state_rank() == as_saved);
    CHECK(take(second, 5) == take(third, 5));
  }
}

// `state`, in which each logical shard stands where it does by an earlier checkpoint and the number
// of batches that are to be skipped after it.
SavableJobState with_checkpoints_of(const SavableJobState& earlier, SavableJobState state) {
  for (auto& rank : state.ranks) {
    for (auto& stream : rank.streams) {
      for (const auto& old_rank : earlier.ranks) {
        for (const auto& old : old_rank.streams) {
          if (old.logical_shard == stream.logical_shard) {
            const std::int64_t delivered = stream.index + stream.offset;
            stream.state = old.state;
            stream.index = old.index;
            stream.epoch = old.epoch;
            stream.offset = delivered - old.index;
          }
        }
      }
    }
  }
  return state;
}

TEST_CASE("X-03 each key as often as the epoch says, through takes, saves, rescales and skips",
          "[rescale][cross]") {
  int all_epochs = 0;
  std::int64_t all_skipped = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const std::int64_t samples = 24 + static_cast<std::int64_t>(random() % 40);
    TrainOptions options = one_epoch();
    options.batch_size = 1;
    options.shuffle_buffer_size = random() % 2 == 0 ? 0 : 6;
    const PipelineFactory pipeline = in_memory({samples / 2, samples - samples / 2}, options);
    std::map<std::string, int> times;
    int epochs = 0;
    int ranks = 1;
    std::set<int> ended;  // ranks that reported the end of this epoch
    auto job = std::make_unique<Job>(pipeline, JobSpec{.world_size = 1, .logical_shards = 12});
    SavableJobState checkpoint = job->save();
    const auto restore = [&](const SavableJobState& state) {
      job = std::make_unique<Job>(pipeline, JobSpec{.world_size = ranks, .logical_shards = 12});
      job->restore(state);
    };
    for (int action = 0; action < 40; ++action) {
      CAPTURE(seed, action, ranks);
      switch (random() % 24) {
        case 0:
        case 1: {  // another layout, or the same
          const SavableJobState state = job->save();
          ranks = std::array{1, 2, 3, 4, 6, 12}[random() % 6];
          restore(rescale(state, {.world_size = ranks}));
          ended.clear();
          break;
        }
        case 2:
          restore(job->save());
          break;
        case 3: {  // from an older checkpoint, with what came since to be skipped
          const SavableJobState state = with_checkpoints_of(checkpoint, job->save());
          for (const auto& rank : state.ranks) {
            for (const auto& stream : rank.streams) {
              all_skipped += stream.offset;
            }
          }
          restore(state);
          break;
        }
        case 4:
          checkpoint = job->save();
          break;
        default:
          break;
      }
      for (int rank = 0; rank < ranks; ++rank) {
        if (ended.contains(rank)) {
          continue;
        }
        const std::string key = job->next(rank);
        if (key == kEpochEnd) {
          ended.insert(rank);
        } else {
          ++times[key];
        }
      }
      REQUIRE(std::all_of(times.begin(), times.end(), [&](const auto& entry) {
        return entry.second == epochs || entry.second == epochs + 1;
      }));
      if (std::ssize(ended) == ranks) {
        ++epochs;
        ended.clear();
        REQUIRE(std::ssize(times) == samples);
        REQUIRE(std::all_of(times.begin(), times.end(),
                            [&](const auto& entry) { return entry.second == epochs; }));
      }
    }
    all_epochs += epochs;
  }
  CHECK(all_epochs > 300);
  CHECK(all_skipped > 3000);
}

}  // namespace
