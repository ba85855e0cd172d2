#include "wrappers/stages/epochs.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/order/worker_config.h"
#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/support/conformance.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/error_of.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/recipe/epoch_length.h"
#include "wrappers/recipe/pipeline.h"

using energon::Dataset;
using energon::HeapBufferPool;
using energon::limited_pipeline;
using energon::PipelineFactory;
using energon::repeated_pipeline;
using energon::testing::error_of;
using energon::testing::numbered_dataset;
using energon::testing::TempDir;

namespace {

using Numbers = std::vector<std::int64_t>;

// The first numbers of the items of each epoch.
std::vector<Numbers> epochs_of(const PipelineFactory& pipeline, int count) {
  HeapBufferPool memory;
  const auto stream = pipeline({.memory = memory});
  std::vector<Numbers> epochs;
  for (int epoch = 0; epoch < count; ++epoch) {
    Numbers& numbers = epochs.emplace_back();
    while (const auto item = stream->next()) {
      numbers.push_back(energon::testing::numbers(*item).front());
    }
    stream->next_epoch();
  }
  return epochs;
}

}  // namespace

TEST_CASE("an epoch may repeat those of another stream", "[wrappers][epochs]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {2, 3});
  const PipelineFactory val = energon::val_pipeline({dataset});
  CHECK(epochs_of(repeated_pipeline(val, 2), 2) ==
        std::vector<Numbers>(2, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  CHECK(epochs_of(repeated_pipeline(val, 1, false), 3) ==
        std::vector<Numbers>{{0, 1, 2, 3, 4}, {}, {}});
  CHECK(epochs_of(repeated_pipeline(val, 0), 2) == std::vector<Numbers>{{}, {}});
  // The next epoch continues after the part of a pass.
  CHECK(epochs_of(repeated_pipeline(val, 1.5), 3) ==
        std::vector<Numbers>{{0, 1, 2, 3, 4, 0, 1}, {2, 3, 4, 0, 1}, {2, 3, 4, 0, 1}});
  CHECK(epochs_of(repeated_pipeline(val, 0.4), 4) ==
        std::vector<Numbers>{{0, 1}, {2, 3}, {4}, {0, 1}});
  CHECK(epochs_of(repeated_pipeline(limited_pipeline(val, 2), 2), 2) ==
        std::vector<Numbers>(2, {0, 1, 0, 1}));
  CHECK(epochs_of(limited_pipeline(repeated_pipeline(val, std::nullopt), 7), 2) ==
        std::vector<Numbers>(2, {0, 1, 2, 3, 4, 0, 1}));
  CHECK(epochs_of(repeated_pipeline(limited_pipeline(val, 0), std::nullopt), 2) ==
        std::vector<Numbers>{{}, {}});
}

TEST_CASE("repetitions out of range are refused", "[wrappers][epochs]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {2, 3});
  const PipelineFactory val = energon::val_pipeline({dataset});
  HeapBufferPool memory;
  for (const double repetitions : {-1.0, 2e15, std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(repetitions);
    CHECK_THAT(error_of([&] { repeated_pipeline(val, repetitions)({.memory = memory}); },
                        energon::ErrorCode::kInvalidArgument),
               Catch::Contains("expected a number from 0 to 1e+15"));
  }
  CHECK_THAT(error_of([&] { limited_pipeline(val, -1)({.memory = memory}); },
                      energon::ErrorCode::kInvalidArgument),
             Catch::Contains("the limit is -1"));
}

TEST_CASE("repeated epochs conform", "[wrappers][conformance][epochs]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, energon::testing::kTens);
  static HeapBufferPool memory;
  const PipelineFactory val = energon::val_pipeline({dataset}, {.batch_size = 8});
  const PipelineFactory train = energon::train_pipeline(
      dataset, {.batch_size = 8, .shuffle_buffer_size = 5, .repeat = false});
  const std::vector<PipelineFactory> pipelines = {
      repeated_pipeline(val, 2),
      repeated_pipeline(val, 1.4),
      repeated_pipeline(train, 2, false),
      repeated_pipeline(train, std::nullopt),
      repeated_pipeline(limited_pipeline(val, 3), 2.5),
      limited_pipeline(repeated_pipeline(limited_pipeline(train, 4), std::nullopt), 6),
      repeated_pipeline(repeated_pipeline(val, 0.5), 3),
  };
  const auto which = GENERATE(range(std::size_t{0}, std::size_t{7}));
  INFO("pipeline " << which);
  energon::testing::check_conformance<Dataset>([&] { return pipelines[which]({.memory = memory}); },
                                               40);
}

TEST_CASE("the length of an epoch is that of a pass if it has no end", "[wrappers][epochs]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {30, 33});
  const PipelineFactory val = energon::val_pipeline({dataset}, {.batch_size = 4});
  const auto lengths = [](const PipelineFactory& pipeline, int workers) {
    const energon::EpochLength length = energon::epoch_length(pipeline, {.num_workers = workers});
    return std::pair(length.exact, length.nominal);
  };
  using Lengths = std::pair<std::optional<std::int64_t>, std::int64_t>;
  CHECK(lengths(val, 0) == Lengths(16, 16));
  CHECK(lengths(val, 2) == Lengths(16, 16));  // 32 and 31 samples
  CHECK(lengths(energon::train_pipeline(dataset, {.batch_size = 4}), 2) ==
        Lengths(std::nullopt, 16));
  CHECK(lengths(energon::train_pipeline(dataset, {.virtual_epoch_length = 7}), 2) == Lengths(7, 7));
  CHECK(lengths(limited_pipeline(val, 5), 2) == Lengths(5, 5));
  CHECK(lengths(limited_pipeline(val, 99), 2) == Lengths(16, 16));
  CHECK(lengths(repeated_pipeline(val, 1.5), 2) == Lengths(std::nullopt, 24));
  CHECK(lengths(repeated_pipeline(val, 3), 2) == Lengths(48, 48));
  CHECK(lengths(repeated_pipeline(val, std::nullopt), 0) == Lengths(std::nullopt, 16));
}
