#include "wrappers/recipe/pipeline.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/dataset_builder.h"

using energon::HeapBufferPool;
using energon::PipelineFactory;
using energon::WorkerConfig;
using energon::testing::kFx55;
using energon::testing::kTens;
using energon::testing::numbered_dataset;
using energon::testing::TempDir;
using Numbers = std::vector<std::int64_t>;

namespace {

// The sample numbers of the first `count` items of one worker.
Numbers take(const PipelineFactory& make, const WorkerConfig& config, int worker,
             std::size_t count) {
  HeapBufferPool memory;
  const auto stream = make({.config = config, .local_index = worker, .memory = memory});
  Numbers result;
  while (result.size() < count) {
    const auto item = stream->next();
    if (!item) {
      break;
    }
    const Numbers numbers = energon::testing::numbers(*item);
    result.insert(result.end(), numbers.begin(), numbers.end());
  }
  return result;
}

}  // namespace

TEST_CASE("training pipelines have Energon's order, worker by worker", "[wrappers][pipeline]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, kTens);
  const auto make = energon::train_pipeline(dataset);
  CHECK(take(make, {}, 0, 20) ==
        Numbers{10, 40, 11, 20, 50, 41, 42, 30, 31, 43, 0, 1, 21, 32, 51, 52, 33, 34, 53, 44});
  CHECK(take(make, {.num_workers = 1}, 0, 20) == take(make, {}, 0, 20));
  CHECK(take(make, {.num_workers = 2}, 0, 34) ==
        Numbers{10, 11, 12, 0, 20, 1,  21, 13, 22, 23, 14, 15, 24, 2, 3,  25, 16,
                17, 18, 19, 4, 26, 27, 5,  6,  7,  8,  9,  0,  10, 1, 11, 20, 2});
  CHECK(take(make, {.num_workers = 2}, 1, 20) ==
        Numbers{50, 30, 51, 40, 52, 31, 32, 28, 53, 33, 41, 34, 35, 54, 36, 42, 43, 37, 29, 38});
  CHECK(take(energon::train_pipeline(dataset,
                                     {.shuffle_buffer_size = 42, .max_samples_per_sequence = 2}),
             {}, 0, 24) == Numbers{14, 19, 44, 25, 31, 22, 27, 5,  40, 8, 23, 38,
                                   17, 33, 29, 2,  11, 0,  18, 42, 20, 2, 24, 39});
}

TEST_CASE("the order depends on the global worker, not on ranks", "[wrappers][pipeline]") {
  const TempDir folder;
  const auto make =
      energon::train_pipeline(numbered_dataset(folder, kTens), {.shuffle_buffer_size = 5});
  for (int global = 0; global < 4; ++global) {
    CAPTURE(global);
    const auto expected = take(make, {.num_workers = 4}, global, 60);
    CHECK(take(make, {.rank = global / 2, .world_size = 2, .num_workers = 2}, global % 2, 60) ==
          expected);
    CHECK(take(make, {.rank = global, .world_size = 4, .num_workers = 1}, 0, 60) == expected);
    CHECK(take(make, {.rank = global, .world_size = 4}, 0, 60) == expected);
    CHECK(take(make, {.num_workers = 4, .seed_offset = 1}, global, 60) != expected);
  }
}

TEST_CASE("one epoch over any layout has every sample once", "[wrappers][pipeline]") {
  const TempDir folder;
  const auto make =
      energon::train_pipeline(numbered_dataset(folder, kFx55), {.batch_size = 2, .repeat = false});
  for (const int world_size : {1, 2, 3}) {
    CAPTURE(world_size);
    for (const int workers : {0, 1, 2, 3, 5, 30}) {
      CAPTURE(workers);
      Numbers seen;
      for (int rank = 0; rank < world_size; ++rank) {
        const WorkerConfig config{.rank = rank, .world_size = world_size, .num_workers = workers};
        for (int worker = 0; worker < config.logical_shards_per_rank(); ++worker) {
          const auto part = take(make, config, worker, 1000);
          seen.insert(seen.end(), part.begin(), part.end());
        }
      }
      std::sort(seen.begin(), seen.end());
      CHECK(seen.size() == 55);
      CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
    }
  }
}

TEST_CASE("validation is in order and complete", "[wrappers][pipeline]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, kFx55);
  Numbers all(55);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::int64_t>(i);
  }
  CHECK(take(energon::val_pipeline({dataset}, {.batch_size = 10}), {}, 0, 100) == all);
  auto twice = all;
  twice.insert(twice.end(), all.begin(), all.end());
  CHECK(take(energon::val_pipeline(energon::PipelineData({dataset, dataset}), {.batch_size = 10}),
             {}, 0, 200) == twice);
}

TEST_CASE("a virtual epoch is shared between the workers of a rank", "[wrappers][pipeline]") {
  const TempDir folder;
  HeapBufferPool memory;
  const auto make = energon::train_pipeline(numbered_dataset(folder, kTens),
                                            {.batch_size = 2, .virtual_epoch_length = 5});
  const WorkerConfig config{.num_workers = 3};
  CHECK(make({.config = config, .local_index = 0, .memory = memory})->size() == 2);
  CHECK(make({.config = config, .local_index = 1, .memory = memory})->size() == 2);
  CHECK(make({.config = config, .local_index = 2, .memory = memory})->size() == 1);
}
