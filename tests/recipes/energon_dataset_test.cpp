// Energon's test_dataset.py as black-box tests, by name and numbers: 50 captioning samples.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/loader/basic_data_loader.h"
#include "io/error.h"
#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::FailureAction;
using energon::FailureReport;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::testing::counts;
using energon::testing::kCaptions;
using energon::testing::keys;
using energon::testing::Keys;
using energon::testing::numbered_key;
using energon::testing::numbers;
using energon::testing::RecipeFolder;
using energon::testing::Stream;
using energon::testing::take_all;
using energon::testing::write_prepared;

namespace {

std::vector<std::size_t> batch_sizes(SavableDataLoader& loader) {
  std::vector<std::size_t> sizes;
  while (const auto batch = loader.next()) {
    sizes.push_back(batch->keys.size());
  }
  return sizes;
}

}  // namespace

TEST_CASE("test_captioning_dataset", "[recipes][dataset]") {
  const RecipeFolder captions(kCaptions);
  std::vector<std::size_t> sizes;
  for (const Sample& batch :
       Stream(energon::train_dataset(captions.file("ds"), {}, {.batch_size = 9, .repeat = false}))
           .take()) {
    sizes.push_back(batch.keys.size());
  }
  CHECK(sizes == std::vector<std::size_t>{9, 9, 9, 9, 9, 5});
}

TEST_CASE("test_exclusion", "[recipes][dataset]") {
  const RecipeFolder folder(
      {{.name = "ds",
        .counts = {30, 20},
        .split = "split_parts:\n  train:\n  - parts/data-{0..1}.tar\nexclude:\n"
                 "- parts/data-0.tar\n- parts/data-1.tar/00003{5..9}\n"}});
  Keys seen = keys(Stream(energon::train_dataset(folder.file("ds"), {}, {.repeat = false})).take());
  std::sort(seen.begin(), seen.end());
  Keys expected;
  for (int i = 30; i < 50; ++i) {
    if (i < 35 || i >= 40) {
      expected.push_back(numbered_key(i));
    }
  }
  CHECK(seen == expected);
}

TEST_CASE("test_loader", "[recipes][dataset][fork]") {
  const RecipeFolder captions(kCaptions);
  SavableDataLoader loader(energon::train_dataset(captions.file("ds"), {},
                                                  {.batch_size = 10, .virtual_epoch_length = 2}),
                           {.worker_config = {.num_workers = 2}});
  std::map<std::string, std::int64_t> seen;
  for (int epoch = 0; epoch < 100; ++epoch) {
    int batches = 0;
    while (const auto batch = loader.next()) {
      ++batches;
      for (const std::string_view key : batch->keys) {
        ++seen[std::string(key)];
      }
    }
    CHECK(batches == 2);
  }
  CHECK(seen.size() == 50);
  for (const auto& [key, count] : seen) {
    INFO(key);
    CHECK((count >= 39 && count <= 41));
  }
}

TEST_CASE("test_dataset_len", "[recipes][dataset][fork]") {
  const RecipeFolder captions(kCaptions);
  const LoaderOptions four_workers{.worker_config = {.num_workers = 4}};
  SavableDataLoader train(energon::train_dataset(captions.file("ds"), {},
                                                 {.batch_size = 11, .virtual_epoch_length = 12}),
                          four_workers);
  CHECK(train.size() == 12);
  CHECK(batch_sizes(train) == std::vector<std::size_t>(12, 11));

  const auto val = [&](std::int64_t batch_size) {
    return energon::val_dataset(captions.file("ds"), {.split = "train"},
                                {.batch_size = batch_size});
  };
  SavableDataLoader singles(val(1), {});
  CHECK(singles.size() == 50);
  CHECK(batch_sizes(singles).size() == 50);
  const std::vector<std::size_t> expected = {11, 11, 11, 11, 2, 1, 2, 1};
  int number = 0;
  for (const auto& make : {val(11), energon::train_dataset(captions.file("ds"), {},
                                                           {.batch_size = 11, .repeat = false})}) {
    INFO("dataset " << number++);
    SavableDataLoader loader(make, four_workers);
    CHECK(loader.size() == 8);
    CHECK(batch_sizes(loader) == expected);
    CHECK(batch_sizes(loader) == expected);
  }
}

TEST_CASE("test_multirank_dataset", "[recipes][dataset][fork]") {
  const RecipeFolder captions(kCaptions);
  std::vector<std::set<std::string>> of_rank;
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    const LoaderOptions options{.worker_config = {.rank = rank, .world_size = 2, .num_workers = 2}};
    SavableDataLoader train(energon::train_dataset(captions.file("ds"), {},
                                                   {.batch_size = 11, .virtual_epoch_length = 12}),
                            options);
    CHECK(train.size() == 12);
    CHECK(batch_sizes(train).size() == 12);
    std::set<std::string> seen;
    for (const std::int64_t batch_size : {1, 11}) {
      CAPTURE(batch_size);
      SavableDataLoader val(
          energon::val_dataset(captions.file("ds"), {.split = "train"}, {.batch_size = batch_size}),
          options);
      CHECK(val.size() == (batch_size == 1 ? 25 : 4));
      std::set<std::string> keys;
      std::vector<std::size_t> sizes;
      while (const auto batch = val.next()) {
        sizes.push_back(batch->keys.size());
        keys.insert(batch->keys.begin(), batch->keys.end());
      }
      CHECK(sizes == (batch_size == 1 ? std::vector<std::size_t>(25, 1)
                                      : std::vector<std::size_t>{11, 11, 2, 1}));
      CHECK(keys.size() == 25);
      CHECK((seen.empty() || seen == keys));
      seen = keys;
    }
    of_rank.push_back(std::move(seen));
  }
  of_rank[0].merge(of_rank[1]);
  CHECK(of_rank[0].size() == 50);
}

TEST_CASE("test_blending", "[recipes][dataset]") {
  const RecipeFolder captions(kCaptions);
  write_prepared(captions, {.name = "other", .counts = {50}, .first = 100});
  auto data = energon::open_data(captions.file("ds"));
  data.leaves.push_back(energon::open_data(captions.file("other")).leaves.front());
  data.mixing = energon::Mixing::kWeighted;
  data.leaves[0].weight = 2;
  data.leaves[1].weight = 8;
  std::int64_t of_other = 0;
  for (const Sample& sample : Stream(energon::train_pipeline(data)).take(1000)) {
    of_other += numbers(sample).front() >= 100;
  }
  CHECK((of_other >= 750 && of_other <= 850));
}

TEST_CASE("test_val_limit", "[recipes][dataset][fork]") {
  const RecipeFolder captions(kCaptions);
  const auto make =
      energon::val_dataset(captions.file("ds"), {.split = "train"}, {.batch_size = 2, .limit = 3});
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    SavableDataLoader loader(make, {.worker_config = {.num_workers = workers}});
    CHECK(loader.size() == 3);
    const auto epoch = [&loader] {
      std::vector<Keys> batches;
      while (const auto batch = loader.next()) {
        batches.push_back(batch->keys.strings());
      }
      return batches;
    };
    const auto first = epoch();
    CHECK(first.size() == 3);
    for (int i = 1; i < 10; ++i) {
      CAPTURE(i);
      CHECK(epoch() == first);
    }
  }
}

TEST_CASE("test_no_batching", "[recipes][dataset]") {
  const RecipeFolder captions(kCaptions);
  const auto samples =
      Stream(energon::train_dataset(captions.file("ds"), {}, {.repeat = false})).take();
  CHECK(samples.size() == 50);
  CHECK(samples.front().keys.size() == 1);
}

TEST_CASE("test_default_dataset", "[recipes][dataset]") {
  const RecipeFolder captions(kCaptions);
  Stream train(energon::train_dataset(captions.file("ds"), {}, {.batch_size = 10}));
  CHECK(keys(train.take(100)).size() == 1000);
  Stream val(energon::val_dataset(captions.file("ds"), {.split = "train"}, {.batch_size = 10}));
  CHECK(keys(val.take()).size() == 50);
}

TEST_CASE("test_custom_error_handler", "[recipes][dataset][fork]") {
  const RecipeFolder captions(kCaptions);
  energon::TaskEncoder encoder;
  encoder.encode_sample = [](Sample sample, CallContext& /*context*/) -> Sample {
    if (numbers(sample).front() % 10 == 3) {
      throw std::runtime_error("three is not a number");
    }
    return sample;
  };
  const auto make = [&](energon::ErrorPolicy policy) {
    return energon::val_dataset(captions.file("ds"), {.split = "train"},
                                {.task_encoder = encoder, .errors = {.standard = policy}});
  };
  SECTION("a handler is called and decides what happens") {
    auto reports = std::make_shared<std::vector<FailureReport>>();
    Stream stream(make({.handler = [reports](const FailureReport& report) {
      reports->push_back(report);
      return FailureAction::kSkip;
    }}));
    CHECK(stream.take().size() == 45);
    REQUIRE(reports->size() == 5);
    const FailureReport& first = reports->front();
    CHECK(first.stage == "encode_sample");
    CHECK_THAT(first.cause, Catch::Contains("three is not a number"));
    CHECK(first.samples.at(0).key == "000003");
    CHECK(first.samples.at(0).shard_name == "parts/data-0.tar");
    CHECK(first.samples.at(0).index_in_shard == 3);
    CHECK(first.samples.at(0).bytes.size == 1024);
  }
  SECTION("failing is the default, also through a worker") {
    for (const int workers : {0, 1}) {
      CAPTURE(workers);
      SavableDataLoader loader(make({}), {.worker_config = {.num_workers = workers}});
      for (int i = 0; i < 3; ++i) {
        CAPTURE(i);
        CHECK(loader.next());
      }
      CHECK_THROWS_WITH(loader.next(),
                        Catch::Contains("three is not a number") && Catch::Contains("000003"));
    }
  }
  SECTION("too many failures in a row end the stream") {
    energon::TaskEncoder broken;
    broken.encode_sample = [](Sample /*sample*/, CallContext& /*context*/) -> Sample {
      throw std::runtime_error("always");
    };
    Stream stream(energon::val_dataset(
        captions.file("ds"), {.split = "train"},
        {.task_encoder = broken,
         .errors = {.standard = {.action = FailureAction::kSkip, .tolerance = 7}}}));
    CHECK_THROWS_WITH(stream.next(), Catch::Contains("7 samples in a row"));
  }
  SECTION("a deliberate skip is not a failure, and a fatal error is fatal") {
    energon::TaskEncoder picky;
    picky.encode_sample = [](Sample sample, CallContext& /*context*/) -> Sample {
      if (numbers(sample).front() < 40) {
        throw energon::SkipSample();
      }
      if (numbers(sample).front() == 45) {
        throw energon::FatalSampleError("45 must not be");
      }
      return sample;
    };
    Stream stream(energon::val_dataset(
        captions.file("ds"), {.split = "train"},
        {.task_encoder = picky,
         .errors = {.standard = {.action = FailureAction::kSkip, .tolerance = 2}}}));
    CHECK(keys(stream.take(5)).back() == "000044");
    CHECK_THROWS_WITH(stream.next(), Catch::Contains("45 must not be"));
  }
}
