// Energon's test_dataset.py as black-box tests, by name and numbers: 50 captioning samples.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/loader/basic_data_loader.h"
#include "io/error.h"
#include "tests/recipes/streams.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/pipeline.h"

using energon::CallContext;
using energon::FailureAction;
using energon::FailureReport;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::testing::counts;
using energon::testing::keys;
using energon::testing::Keys;
using energon::testing::numbered_key;
using energon::testing::numbers;
using energon::testing::Stream;
using energon::testing::take_all;
using energon::testing::TempDir;
using energon::testing::write_prepared;

namespace {

// 50 samples in two shards of 30 and 20.
class Captions {
 public:
  Captions() { write_prepared(folder_, {.name = "ds", .counts = {30, 20}}); }
  std::string path() const { return folder_.file("ds"); }
  const TempDir& folder() const { return folder_; }

 private:
  TempDir folder_;
};

std::vector<std::size_t> batch_sizes(SavableDataLoader& loader) {
  std::vector<std::size_t> sizes;
  while (const auto batch = loader.next()) {
    sizes.push_back(batch->keys.size());
  }
  return sizes;
}

}  // namespace

TEST_CASE("test_captioning_dataset", "[recipes][dataset]") {
  const Captions captions;
  std::vector<std::size_t> sizes;
  for (const Sample& batch :
       Stream(energon::train_dataset(captions.path(), {}, {.batch_size = 9, .repeat = false}))
           .take()) {
    sizes.push_back(batch.keys.size());
  }
  CHECK(sizes == std::vector<std::size_t>{9, 9, 9, 9, 9, 5});
}

TEST_CASE("test_exclusion", "[recipes][dataset]") {
  const TempDir folder;
  write_prepared(folder, {.name = "ds",
                          .counts = {30, 20},
                          .split = "split_parts:\n  train:\n  - parts/data-{0..1}.tar\nexclude:\n"
                                   "- parts/data-0.tar\n- parts/data-1.tar/00003{5..9}\n"});
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
  const Captions captions;
  SavableDataLoader loader(
      energon::train_dataset(captions.path(), {}, {.batch_size = 10, .virtual_epoch_length = 2}),
      {.worker_config = {.num_workers = 2}});
  std::map<std::string, std::int64_t> seen;
  for (int epoch = 0; epoch < 100; ++epoch) {
    int batches = 0;
    while (const auto batch = loader.next()) {
      ++batches;
      for (const std::string& key : batch->keys) {
        ++seen[key];
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
  const Captions captions;
  SavableDataLoader loader(
      energon::train_dataset(captions.path(), {}, {.batch_size = 11, .repeat = false}),
      {.worker_config = {.num_workers = 4}});
  CHECK(loader.size() == 8);
  CHECK(batch_sizes(loader) == std::vector<std::size_t>{11, 11, 11, 11, 2, 1, 2, 1});
  CHECK(batch_sizes(loader).size() == 8);
}

TEST_CASE("test_multirank_dataset", "[recipes][dataset]") {
  const Captions captions;
  const auto make = energon::train_dataset(captions.path(), {}, {.repeat = false});
  std::set<std::string> seen;
  for (int rank = 0; rank < 2; ++rank) {
    std::size_t length = 0;
    for (int worker = 0; worker < 2; ++worker) {
      const Keys part =
          keys(Stream(make, {.rank = rank, .world_size = 2, .num_workers = 2}, worker).take());
      length += part.size();
      seen.insert(part.begin(), part.end());
    }
    CHECK(length == 25);
  }
  CHECK(seen.size() == 50);
}

TEST_CASE("test_blending", "[recipes][dataset]") {
  const Captions captions;
  write_prepared(captions.folder(), {.name = "other", .counts = {50}, .first = 100});
  auto data = energon::open_data(captions.path());
  data.leaves.push_back(energon::open_data(captions.folder().file("other")).leaves.front());
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
  const Captions captions;
  const auto make =
      energon::val_dataset(captions.path(), {.split = "train"}, {.batch_size = 10, .limit = 3});
  for (const int workers : {0, 2}) {
    SavableDataLoader loader(make, {.worker_config = {.num_workers = workers}});
    const auto epoch = [&loader] {
      std::vector<Keys> batches;
      while (const auto batch = loader.next()) {
        batches.push_back(batch->keys);
      }
      return batches;
    };
    const auto first = epoch();
    CHECK(first.size() == 3);
    CHECK(epoch() == first);
    CHECK(epoch() == first);
  }
}

TEST_CASE("test_current_batch_index", "[recipes][dataset][fork]") {
  const Captions captions;
  // Every function knows its number of call; the worker's batch b is the rank's b * workers + w.
  energon::TaskEncoder encoder;
  encoder.encode_sample = [](Sample sample, CallContext& context) {
    sample.fields = {{"call", context.call()}};
    return sample;
  };
  encoder.encode_batch = [](Sample batch, CallContext& context) {
    batch.fields.emplace_back("batch", context.call());
    return batch;
  };
  for (const int workers : {0, 2}) {
    const auto make =
        energon::train_dataset(captions.path(), {}, {.task_encoder = encoder, .batch_size = 2});
    const LoaderOptions options{.worker_config = {.num_workers = workers}};
    SavableDataLoader loader(make, options);
    std::vector<Sample> batches;
    for (std::int64_t i = 0; i < 20; ++i) {
      batches.push_back(loader.next().value());
      const std::int64_t of_worker = i / std::max(workers, 1);
      CHECK(std::get<std::int64_t>(batches.back().at("batch").base()) == of_worker);
    }
    for (const Sample& batch : batches) {
      CHECK(digest(loader.restore_sample(batch.restore_key)) == digest(batch));
    }
    SavableDataLoader restored(make, options);
    restored.restore_state_rank(loader.save_state_rank());
    CHECK(std::get<std::int64_t>(restored.next()->at("batch").base()) == 20 / std::max(workers, 1));
  }
}

TEST_CASE("test_no_batching", "[recipes][dataset]") {
  const Captions captions;
  const auto samples =
      Stream(energon::train_dataset(captions.path(), {}, {.repeat = false})).take();
  CHECK(samples.size() == 50);
  CHECK(samples.front().keys.size() == 1);
}

TEST_CASE("test_custom_error_handler", "[recipes][dataset][fork]") {
  const Captions captions;
  energon::TaskEncoder encoder;
  encoder.encode_sample = [](Sample sample, CallContext& /*context*/) -> Sample {
    if (numbers(sample).front() % 10 == 3) {
      throw std::runtime_error("three is not a number");
    }
    return sample;
  };
  const auto make = [&](energon::ErrorPolicy policy) {
    return energon::val_dataset(captions.path(), {.split = "train"},
                                {.task_encoder = encoder, .errors = {.standard = policy}});
  };
  SECTION("a handler is told and decides") {
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
      SavableDataLoader loader(make({}), {.worker_config = {.num_workers = workers}});
      for (int i = 0; i < 3; ++i) {
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
        captions.path(), {.split = "train"},
        {.task_encoder = broken,
         .errors = {.standard = {.action = FailureAction::kSkip, .tolerance = 7}}}));
    CHECK_THROWS_WITH(stream.next(), Catch::Contains("7 samples in a row"));
  }
  SECTION("skipped on purpose is not a failure, and fatal is fatal") {
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
        captions.path(), {.split = "train"},
        {.task_encoder = picky,
         .errors = {.standard = {.action = FailureAction::kSkip, .tolerance = 2}}}));
    CHECK(keys(stream.take(5)).back() == "000044");
    CHECK_THROWS_WITH(stream.next(), Catch::Contains("45 must not be"));
  }
}
