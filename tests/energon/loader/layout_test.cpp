// Logical shards set by the user: one stream on any layout. Numbered acceptance tests of rescalable
// datasets (IBM-01 … 04, 12, 16, 17) and of Energon's invariance (ENE-16).

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/checkpoint/rescale.h"
#include "io/error.h"
#include "tests/energon/loader/job.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/child_runner.h"

namespace {

using energon::Error;
using energon::LoaderOptions;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::WorkerConfig;
using energon::testing::Job;
using energon::testing::JobSpec;
using energon::testing::kEpochEnd;
using energon::testing::LoaderFixture;
using energon::testing::one_epoch;
using energon::testing::take;

using Keys = std::vector<std::string>;

std::map<std::string, int> counts(const Keys& keys) {
  std::map<std::string, int> result;
  for (const std::string& key : keys) {
    ++result[key];
  }
  return result;
}

// Whether `keys` are `samples` different keys, each `times` times.
void check_coverage(const Keys& keys, std::size_t samples, int times) {
  const auto found = counts(keys);
  CHECK(found.size() == samples);
  for (const auto& [key, count] : found) {
    if (count != times) {
      FAIL_CHECK("key " << key << " came " << count << " times, expected " << times);
    }
  }
}

Keys steps_of_all(const LoaderFixture& fixture, const JobSpec& spec, std::int64_t steps) {
  Job job(fixture.pipeline(), spec);
  return job.steps(steps);
}

TEST_CASE("IBM-01 one tar in seven logical shards: each key once an epoch", "[loader][ibm]") {
  const LoaderFixture fixture(one_epoch(), {100});
  Job job(fixture.pipeline(), {.logical_shards = 7, .epoch_policy = energon::EpochPolicy::kLoop});
  Keys keys = job.steps(100);
  check_coverage(keys, 100, 1);
  const Keys more = job.steps(100);
  keys.insert(keys.end(), more.begin(), more.end());
  check_coverage(keys, 100, 2);
}

TEST_CASE("IBM-02 two tars in seven logical shards: each key once", "[loader][ibm]") {
  const LoaderFixture fixture(one_epoch(), {50, 50});
  check_coverage(steps_of_all(fixture, {.logical_shards = 7}, 100), 100, 1);
}

TEST_CASE("IBM-03 two ranks are disjoint and complete", "[loader][ibm]") {
  const LoaderFixture fixture(one_epoch(), {100});
  check_coverage(steps_of_all(fixture, {.world_size = 2, .logical_shards = 8}, 50), 100, 1);
}

TEST_CASE("IBM-04 any grid of ranks and workers delivers each key once", "[loader][ibm][fork]") {
  TrainOptions options = one_epoch();
  options.task_encoder.encode_sample =
      energon::MapFunction([](energon::Sample sample, energon::CallContext&) { return sample; });
  const LoaderFixture fixture(options, {100});
  for (const int ranks : {2, 5}) {
    for (const int workers : {0, 2}) {
      CAPTURE(ranks, workers);
      check_coverage(
          steps_of_all(fixture, {.world_size = ranks, .num_workers = workers, .logical_shards = 20},
                       100 / ranks),
          100, 1);
    }
  }
}

TEST_CASE("The stream of a rank does not depend on the number of its workers", "[loader][fork]") {
  TrainOptions options;
  options.batch_size = 3;
  options.shuffle_buffer_size = 5;
  options.repeat = false;
  const LoaderFixture fixture(options, {7, 30, 18});
  LoaderOptions settings{
      .worker_config = {.rank = 1, .world_size = 2, .num_workers = 0, .logical_shards = 10}};
  SavableDataLoader reference(fixture.pipeline(), settings);
  const auto expected = take(reference, 30);
  for (const int workers : {1, 2, 3, 5}) {
    for (const int prefetch : {1, 4}) {
      CAPTURE(workers, prefetch);
      settings.worker_config.num_workers = workers;
      settings.prefetch_factor = prefetch;
      SavableDataLoader loader(fixture.pipeline(), settings);
      CHECK(take(loader, 30) == expected);
    }
  }
}

TEST_CASE("A state is restored with any other number of workers", "[loader][fork]") {
  TrainOptions options;
  options.batch_size = 3;
  options.repeat = false;
  const LoaderFixture fixture(options, {7, 30, 18});
  LoaderOptions settings{
      .worker_config = {.rank = 0, .world_size = 1, .num_workers = 0, .logical_shards = 6}};
  SavableDataLoader reference(fixture.pipeline(), settings);
  const auto expected = take(reference, 60);
  int workers = 0;
  std::optional<energon::SavableDataLoaderState> state;
  for (std::size_t k = 0; k < 55; k += 5) {
    CAPTURE(k, workers);
    settings.worker_config.num_workers = workers;
    settings.checkpoint_every_batches = 1 + static_cast<std::int64_t>(k % 3);
    SavableDataLoader loader(fixture.pipeline(), settings);
    if (state) {
      loader.restore_state_rank(*state);
      const auto same = loader.save_state_rank();
      CHECK(same == *state);
    }
    CHECK(take(loader, 5) ==
          std::vector<std::string>(expected.begin() + static_cast<std::ptrdiff_t>(k),
                                   expected.begin() + static_cast<std::ptrdiff_t>(k + 5)));
    state = loader.save_state_rank();
    workers = (workers + 1) % 4;
  }
}

TEST_CASE("IBM-12 fewer logical shards than workers are refused with both numbers",
          "[loader][ibm]") {
  const LoaderFixture fixture(one_epoch(), {10});
  const auto construct = [&](const WorkerConfig& config) {
    SavableDataLoader loader(fixture.pipeline(), {.worker_config = config});
  };
  CHECK_THROWS_WITH(construct({.world_size = 4, .logical_shards = 2}),
                    Catch::Contains("logical_shards is 2") && Catch::Contains("world_size 4") &&
                        Catch::Contains("[4, "));
  CHECK_THROWS_WITH(construct({.world_size = 4, .num_workers = 3, .logical_shards = 8}),
                    Catch::Contains("[12, "));
  CHECK_THROWS_WITH(
      construct({.world_size = 4, .logical_shards = 10}),
      Catch::Contains("not a multiple of world_size 4") && Catch::Contains("8 or 12"));
  CHECK_NOTHROW(construct({.world_size = 4, .logical_shards = 10, .allow_uneven = true}));
}

TEST_CASE("IBM-16 each worker ends once, the loader reports it once, then comes the next epoch",
          "[loader][ibm][fork]") {
  const LoaderFixture fixture(one_epoch(), {100});
  for (const int workers : {0, 3}) {
    CAPTURE(workers);
    SavableDataLoader loader(fixture.pipeline(),
                             {.worker_config = {.num_workers = workers, .logical_shards = 3}});
    std::vector<Keys> epochs;
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      // The end was reported once: the next call returns the first batch of the next epoch.
      Keys keys;
      std::map<std::int64_t, int> by_shard;
      while (const auto batch = loader.next()) {
        keys.emplace_back(batch->keys.front());
        ++by_shard[split_key(batch->restore_key, energon::Stage::kLogicalShard, 2, 1).integers[0]];
      }
      check_coverage(keys, 100, 1);
      CHECK(by_shard == std::map<std::int64_t, int>{{0, 34}, {1, 33}, {2, 33}});
      // Each logical shard, each on its own worker, also ended once.
      const auto state = loader.save_state_rank();
      CHECK(state.epoch == epoch);
      CHECK(state.epoch_finished);
      for (const auto& shard : state.checkpoints) {
        CHECK(shard.turn == energon::Turn{.epoch = epoch + 1, .count = 0});
      }
      epochs.push_back(std::move(keys));
    }
    CHECK(epochs[0] == epochs[1]);  // nothing shuffles
  }
}

// Tars that this process has open.
std::ptrdiff_t open_tars() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::count_if(begin(descriptors), end(descriptors), [](const auto& entry) {
    std::error_code gone;
    return std::filesystem::read_symlink(entry.path(), gone).extension() == ".tar";
  });
}

TEST_CASE("IBM-17 many logical shards keep no more tars open than one", "[loader][ibm][fork]") {
  const energon::testing::TempDir folder;
  const auto dataset = energon::testing::numbered_dataset(folder, std::vector<std::int64_t>(60, 10),
                                                          0, {.open_shards = 2});
  const auto result = energon::testing::run_in_child([&] {
    const rlimit limit{.rlim_cur = 64, .rlim_max = 64};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
      return 2;
    }
    SavableDataLoader loader(energon::train_pipeline(dataset, one_epoch()),
                             {.worker_config = {.num_workers = 0, .logical_shards = 512}});
    std::set<std::string> keys;
    std::ptrdiff_t most = 0;
    while (const auto batch = loader.next()) {
      keys.emplace(batch->keys.front());
      most = std::max(most, open_tars());
    }
    return keys.size() == 600 && most >= 1 && most <= 2 ? 0 : 1;
  });
  CHECK(result.exit_code == 0);
}

TEST_CASE("ENE-16 the global batches are the same on all layouts of one size",
          "[loader][ene][fork]") {
  const auto global_batches = [](int world_size, int workers, std::int64_t batch_size) {
    TrainOptions options;
    options.batch_size = batch_size;
    options.shuffle_buffer_size = 10;
    const LoaderFixture fixture(options);
    std::vector<std::unique_ptr<SavableDataLoader>> ranks;
    for (int rank = 0; rank < world_size; ++rank) {
      ranks.push_back(std::make_unique<SavableDataLoader>(
          fixture.pipeline(),
          LoaderOptions{
              .worker_config = {.rank = rank, .world_size = world_size, .num_workers = workers}}));
    }
    // A global batch of 8 consists of several micro batches of each rank, which takes them from all
    // its workers.
    std::vector<std::multiset<std::string>> batches;
    const std::int64_t micro_batches = 8 / (world_size * batch_size);
    for (int step = 0; step < 55; ++step) {
      std::multiset<std::string> keys;
      for (const auto& rank : ranks) {
        for (std::int64_t i = 0; i < micro_batches; ++i) {
          const auto batch = rank->next();
          keys.insert(batch->keys.begin(), batch->keys.end());
        }
      }
      batches.push_back(std::move(keys));
    }
    return batches;
  };
  const auto expected = global_batches(1, 4, 2);
  CHECK(global_batches(2, 2, 2) == expected);
  CHECK(global_batches(4, 1, 2) == expected);
  CHECK(global_batches(2, 2, 1) == expected);
}

}  // namespace
