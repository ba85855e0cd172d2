#include "wrappers/batching/batch.h"

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/dataset_builder.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/stages/epochs.h"

using energon::BatchOptions;
using energon::Dataset;
using energon::HeapBufferPool;
using energon::testing::numbered_dataset;
using energon::testing::TempDir;
using Remainder = BatchOptions::Remainder;

TEST_CASE("leftover samples make a smaller batch or are dropped", "[wrappers][batch]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, energon::testing::kTens);
  HeapBufferPool memory;
  for (const Remainder remainder : {Remainder::kSmallerBatch, Remainder::kDrop}) {
    CAPTURE(remainder);
    const auto stream = energon::val_pipeline(
        {dataset}, {.batch_size = 9, .remainder = remainder})({.memory = memory});
    std::vector<std::size_t> sizes;
    while (const auto batch = stream->next()) {
      sizes.push_back(batch->keys.size());
    }
    std::vector<std::size_t> expected(6, 9);
    if (remainder == Remainder::kSmallerBatch) {
      expected.push_back(1);
    }
    CHECK(sizes == expected);
    CHECK(stream->size() == static_cast<std::int64_t>(expected.size()));
  }
}

TEST_CASE("batches, limits and epochs conform", "[wrappers][conformance]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, energon::testing::kTens);
  static HeapBufferPool memory;
  const auto train = [&dataset](energon::TrainOptions options) {
    return energon::train_pipeline(dataset, std::move(options))({.memory = memory});
  };
  const std::vector<std::function<std::unique_ptr<Dataset>()>> makers = {
      [&] { return train({.batch_size = 4, .repeat = false}); },
      [&] { return train({.batch_size = 4, .remainder = Remainder::kDrop, .repeat = false}); },
      [&] { return train({.batch_size = 3, .shuffle_buffer_size = 5, .virtual_epoch_length = 7}); },
      [&] { return train({.virtual_epoch_length = 9}); },
      [&] {
        return energon::val_pipeline({dataset}, {.batch_size = 10, .limit = 3})({.memory = memory});
      },
      [&] {
        return energon::val_pipeline(energon::PipelineData({dataset, dataset}),
                                     {.batch_size = 8})({.memory = memory});
      },
      [&] {
        return std::make_unique<energon::Epochize>(train({.batch_size = 10, .repeat = false}), 4);
      },
      // With 14 batches, the last virtual epoch of a pass is shorter, the same, or the only one.
      [&] { return train({.batch_size = 4, .virtual_epoch_length = 5, .repeat = false}); },
      [&] { return train({.batch_size = 4, .virtual_epoch_length = 7, .repeat = false}); },
      [&] { return train({.batch_size = 4, .virtual_epoch_length = 99, .repeat = false}); },
  };
  const auto which = GENERATE(range(std::size_t{0}, std::size_t{10}));
  INFO("pipeline " << which);
  energon::testing::check_conformance<Dataset>(makers[which], 32);
}

TEST_CASE("a virtual epoch continues where the last one ended, also over the end of the data",
          "[wrappers][epochize]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {3, 4});
  HeapBufferPool memory;
  energon::Epochize stream(energon::val_pipeline({dataset})({.memory = memory}), 5);
  std::vector<std::int64_t> seen;
  for (int epoch = 0; epoch < 3; ++epoch) {
    CAPTURE(epoch);
    int count = 0;
    while (const auto item = stream.next()) {
      seen.push_back(energon::testing::numbers(*item).front());
      ++count;
    }
    CHECK(count == 5);
    stream.next_epoch();
  }
  CHECK(seen == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0});
}

TEST_CASE("every validation epoch has the same first batches", "[wrappers][limit]") {
  const TempDir folder;
  HeapBufferPool memory;
  const auto dataset = numbered_dataset(folder, energon::testing::kTens);
  const auto stream =
      energon::val_pipeline({dataset}, {.batch_size = 10, .limit = 2})({.memory = memory});
  for (int epoch = 0; epoch < 3; ++epoch) {
    CAPTURE(epoch);
    for (int batch = 0; batch < 2; ++batch) {
      CAPTURE(batch);
      const auto item = stream->next();
      REQUIRE(item);
      CHECK(energon::testing::numbers(*item).front() == 10 * batch);
    }
    CHECK_FALSE(stream->next());
    stream->next_epoch();
  }
}

TEST_CASE("a batch is rebuilt from its key", "[wrappers][batch]") {
  const TempDir folder;
  HeapBufferPool memory;
  const auto dataset = numbered_dataset(folder, energon::testing::kTens, 100);
  const auto make = energon::train_pipeline(dataset, {.batch_size = 4, .shuffle_buffer_size = 20});
  const auto stream = make({.memory = memory});
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    const auto batch = stream->next();
    const auto rebuilt = make({.memory = memory})->restore_sample(batch->restore_key);
    CHECK(energon::testing::label(rebuilt) == energon::testing::label(*batch));
    CHECK(rebuilt.keys == batch->keys);
  }
  CHECK_THROWS_AS(
      make({.memory = memory})->restore_sample(energon::RestoreKey::from_text("Webdataset(0,1)")),
      energon::Error);
  CHECK_THROWS_AS(
      make({.memory = memory})
          ->restore_sample(energon::RestoreKey::from_text("Batch(0)[Webdataset(0,55)]")),
      energon::Error);
}

TEST_CASE("batches larger than any memory are refused", "[wrappers][batch]") {
  const TempDir folder;
  HeapBufferPool memory;
  const auto dataset = numbered_dataset(folder, {3});
  CHECK_THROWS_WITH(energon::train_pipeline(dataset, {.batch_size = INT64_MAX})({.memory = memory}),
                    Catch::Contains("batch size is 9223372036854775807"));
  CHECK_THROWS_WITH(
      energon::train_pipeline(dataset, {.shuffle_buffer_size = INT64_MAX})({.memory = memory}),
      Catch::Contains("shuffle buffer size is 9223372036854775807"));
}

TEST_CASE("without repeat a virtual epoch ends with the data", "[wrappers][epochize]") {
  using Epochs = std::vector<std::vector<std::vector<std::int64_t>>>;
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {3, 4});
  HeapBufferPool memory;
  const auto epochs = [&](std::int64_t length) {
    const auto stream = energon::train_pipeline(
        dataset, {.shuffle_over_epochs = {.mode = energon::ShuffleOverEpochs::Mode::kNone},
                  .parallel_slices = 1,
                  .virtual_epoch_length = length,
                  .repeat = false})({.memory = memory});
    Epochs epochs;
    while (epochs.size() < 3) {
      epochs.push_back(energon::testing::epoch_numbers(*stream));
      stream->next_epoch();
    }
    return epochs;
  };
  const std::vector<std::vector<std::int64_t>> all = {{0}, {1}, {2}, {3}, {4}, {5}, {6}};
  CHECK(epochs(5) == Epochs{{{0}, {1}, {2}, {3}, {4}}, {{5}, {6}}, {{0}, {1}, {2}, {3}, {4}}});
  CHECK(epochs(7) == Epochs{all, all, all});
  CHECK(epochs(100) == Epochs{all, all, all});
}

TEST_CASE("a validation limit of 0 means no limit, and negative lengths are refused",
          "[wrappers][limit]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {3, 4});
  HeapBufferPool memory;
  const auto count = [&](std::optional<std::int64_t> limit) {
    return energon::testing::epoch_numbers(
               *energon::val_pipeline(dataset, {.limit = limit})({.memory = memory}))
        .size();
  };
  CHECK(count(0) == 7);
  CHECK(count(std::nullopt) == 7);
  CHECK(count(2) == 2);
  CHECK_THROWS_WITH(energon::val_pipeline(dataset, {.limit = -1}), Catch::Contains("limit is -1"));
  CHECK_THROWS_WITH(energon::train_pipeline(dataset, {.virtual_epoch_length = -1}),
                    Catch::Contains("virtual_epoch_length is -1"));
}
