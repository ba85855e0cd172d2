// Jobs without logical shards, rescaled like Energon's redistribution of states (ENE-15).

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/rescale.h"
#include "tests/energon/checkpoint/keys.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"

namespace {

using energon::PipelineFactory;
using energon::SavableJobState;
using energon::TrainOptions;
using energon::testing::in_memory;
using energon::testing::Job;
using energon::testing::kEpochEnd;
using energon::testing::Keys;
using energon::testing::LoaderFixture;
using energon::testing::one_epoch;

TEST_CASE("ENE-15 one of Energon's layouts becomes another one", "[rescale][ene][fork]") {
  TrainOptions options;
  options.batch_size = 2;
  options.shuffle_buffer_size = 10;
  const LoaderFixture fixture(options);
  // Each rank takes micro batches until it has 4 samples of each of the 4 workers.
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

TEST_CASE("ENE-15 an unsuitable total of workers is an error with the suitable layouts",
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

TEST_CASE("ENE-15 at a step that is not a multiple of the workers, nothing is lost or repeated",
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

}  // namespace
