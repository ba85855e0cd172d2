// Energon's test_metadataset_v2.py as black-box tests, by name and numbers.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/prepare/prepare_join.h"
#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::DataOptions;
using energon::JoinedColumn;
using energon::Mapping;
using energon::PipelineFactory;
using energon::Sample;
using energon::TrainOptions;
using energon::testing::check_resumes;
using energon::testing::counts;
using energon::testing::Keys;
using energon::testing::keys;
using energon::testing::kTwoOf55;
using energon::testing::numbers;
using energon::testing::RecipeFolder;
using energon::testing::Stream;
using energon::testing::take_all;
using energon::testing::text_of;
using energon::testing::write_prepared;

namespace {

// ds1 and ds2, and ds3 with the keys of ds1.
class V2 : public RecipeFolder {
 public:
  V2() : RecipeFolder(kTwoOf55) {
    write_prepared(*this, {.name = "ds3", .counts = {30, 25}, .prefix = "c", .part = "cap"});
  }
};

PipelineFactory once(const std::string& path, const DataOptions& data = {}) {
  return energon::train_dataset(path, data, {.repeat = false});
}

std::vector<std::int64_t> in_order(const std::string& path) {
  std::vector<std::int64_t> result;
  for (const Sample& sample : Stream(energon::val_dataset(path, {.split = "train"})).take()) {
    result.push_back(numbers(sample).front());
  }
  return result;
}

}  // namespace

TEST_CASE("test_metadataset_v2_blend", "[recipes][v2]") {
  const V2 v2;
  Stream stream(energon::train_dataset(
      v2.recipe("{blend: [{weight: 2, path: ds1}, {weight: 8, path: ds2}]}"), {}, {}));
  std::int64_t of_one = 0;
  for (const Sample& sample : stream.take(1000)) {
    of_one += numbers(sample).front() < 100;
  }
  CHECK((of_one >= 150 && of_one <= 250));
}

TEST_CASE("test_blend_epochized", "[recipes][v2][fork]") {
  const V2 v2;
  const auto path =
      v2.recipe("{blend_epochized: [{repetitions: 2, path: ds1}, {repetitions: 3, path: ds2}]}");
  Stream stream(once(path));
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto seen = counts(keys(stream.take()));
    CHECK(seen.size() == 110);
    for (const auto& [key, count] : seen) {
      INFO(key);
      CHECK(count == (key < "000100" ? 2 : 3));
    }
    stream.dataset().next_epoch();
  }
  // Over several epochs in an endless mode, and over workers.
  Stream endless(energon::train_dataset(path, {}, {.shuffle_buffer_size = 1}));
  for (const auto& [key, count] : counts(keys(endless.take(275 * 3)))) {
    CAPTURE(key);
    CHECK(count == (key < "000100" ? 6 : 9));
  }
  for (const auto& [key, count] : counts(keys(take_all(once(path), 2, 2)))) {
    CAPTURE(key);
    CHECK(count == (key < "000100" ? 2 : 3));
  }
  check_resumes(energon::train_dataset(path, {}, {.batch_size = 4, .shuffle_buffer_size = 10}),
                {.worker_config = {.num_workers = 2}}, {0, 1, 30, 68, 69, 70, 100}, 50);
}

TEST_CASE("test_blend_epochized_fractional", "[recipes][v2]") {
  const V2 v2;
  Stream stream(once(v2.recipe(
      "{blend_epochized: [{repetitions: 0.7, path: ds1}, {repetitions: 1.5, path: ds2}]}")));
  for (int epoch = 0; epoch < 3; ++epoch) {
    CAPTURE(epoch);
    std::int64_t of_one = 0;
    std::int64_t of_two = 0;
    for (const auto& [key, count] : counts(keys(stream.take()))) {
      CAPTURE(key);
      CHECK(count <= (key < "000100" ? 1 : 2));
      (key < "000100" ? of_one : of_two) += count;
    }
    CHECK(of_one == 38);
    CHECK(of_two == 55 + 27);
    stream.dataset().next_epoch();
  }
}

TEST_CASE("test_nested_blend_epochized", "[recipes][v2]") {
  const V2 v2;
  v2.write("inner.yaml",
           "__class__: MetadatasetV2\nsplits: {train: {blend_epochized: "
           "[{repetitions: 2, path: ds1}, {path: ds2}]}}\n");
  const auto seen = counts(keys(
      Stream(once(v2.recipe("{blend_epochized: [{repetitions: 3, path: inner.yaml}]}"))).take()));
  CHECK(seen.at("000000") == 6);
  CHECK(seen.at("000100") == 3);
}

TEST_CASE("test_blend_of_different_kinds_is_refused", "[recipes][v2]") {
  const V2 v2;
  v2.write("inner.yaml", "__class__: MetadatasetV2\nsplits: {train: {blend: [{path: ds1}]}}\n");
  CHECK_THROWS_WITH(once(v2.recipe("{blend_epochized: [{path: inner.yaml}]}")),
                    Catch::Contains("blend"));
  CHECK_THROWS_WITH(once(v2.file("inner.yaml")), Catch::Contains("never ends"));
}

TEST_CASE("test_subset", "[recipes][v2]") {
  const V2 v2;
  const auto range = [](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> result;
    for (std::int64_t i = begin; i < end; ++i) {
      result.push_back(i);
    }
    return result;
  };
  CHECK(in_order(v2.recipe("{path: ds1, subset: {range: [20%, 80%]}}")) == range(11, 44));
  CHECK(in_order(v2.recipe("{path: ds1, subset: {range: [50, end]}}")) == range(50, 55));
  CHECK(in_order(v2.recipe("{path: ds1, subset: {range: [0, 5]}}")) == range(0, 5));
  v2.write("inner.yaml",
           "__class__: MetadatasetV2\nsplits: {train: {path: ds1, subset: "
           "{range: [10, 30]}}}\n");
  CHECK(in_order(v2.recipe("{path: inner.yaml, subset: {range: [20%, 80%]}}")) == range(14, 26));
  for (const char* const bad : {"[30, 10]", "[10, 80%]", "[0, 56]", "[-1, 10]", "[90%, 101%]"}) {
    INFO(bad);
    CHECK_THROWS_AS(in_order(v2.recipe(fmt::format("{{path: ds1, subset: {{range: {}}}}}", bad))),
                    energon::Error);
  }
}

TEST_CASE("test_subset_over_workers", "[recipes][v2]") {
  const V2 v2;
  Keys seen = keys(take_all(
      once(v2.recipe("{blend_epochized: [{path: ds1, subset: {range: [20%, 80%]}}]}")), 2, 3));
  std::sort(seen.begin(), seen.end());
  CHECK(seen.size() == 33);
  CHECK(seen.front() == "000011");
  CHECK(seen.back() == "000043");
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("test_joined_metadataset", "[recipes][v2]") {
  const V2 v2;
  const auto path = v2.recipe("{join: [{path: ds1}, {path: ds3}], joiner: {__class__: Pair}}");
  CHECK_THROWS_WITH(once(path), Catch::Contains("energon prepare"));
  energon::prepare_metadataset(path);
  const auto samples = Stream(once(path)).take();
  CHECK(samples.size() == 55);
  for (const Sample& sample : samples) {
    CAPTURE(sample.keys.strings());
    const std::string number = std::to_string(numbers(sample).front());
    CHECK(text_of(sample.at("txt")) == "a" + number);
    CHECK(text_of(sample.at("cap")) == "c" + number);
  }
}

TEST_CASE("test_joined_metadataset_joiner", "[recipes][v2]") {
  const V2 v2;
  const auto path = v2.recipe(
      "{join: {left: {path: ds1}, right: {path: ds3}}, joiner: {__function__: m.py:pair}}");
  energon::prepare_metadataset(path);
  CHECK_THROWS_WITH(once(path), Catch::Contains("joiners"));
  DataOptions data;
  const auto pair = [](std::vector<JoinedColumn> columns) {
    return Mapping{{columns.at(0).name, columns.at(0).sample->fields.at(0).second},
                   {columns.at(1).name, columns.at(1).sample->fields.at(0).second}};
  };
  data.joiners = {{"m.py:pair", pair}, {"pair", pair}};
  for (const Sample& sample : Stream(once(path, data)).take()) {
    CAPTURE(sample.keys.strings());
    CHECK(text_of(sample.at("left")).substr(1) == text_of(sample.at("right")).substr(1));
  }
}

TEST_CASE("test_joined_metadataset_prepare_mock_empty", "[recipes][v2]") {
  // prepare ignores a joiner that exists only in Python.
  const V2 v2;
  const auto report = energon::prepare_metadataset(v2.recipe(
      "{join: [{path: ds1}, {path: ds3}], joiner: {__module__: mock, __class__: Unknown}}"));
  CHECK(report.joins.at(0).rows == 55);
}

TEST_CASE("test_left_join", "[recipes][v2]") {
  const V2 v2;
  write_prepared(v2, {.name = "part", .counts = {20}, .first = 30, .part = "cap"});
  const auto skip =
      v2.recipe("{join: [{path: ds1}, {path: part, nonmatch: skip}], joiner: {__class__: Pair}}");
  energon::prepare_metadataset(skip);
  CHECK(Stream(once(skip)).take().size() == 20);
  const auto none =
      v2.recipe("{join: [{path: ds1}, {path: part, nonmatch: none}], joiner: {__class__: Pair}}");
  energon::prepare_metadataset(none);
  std::int64_t with_both = 0;
  const auto samples = Stream(once(none)).take();
  for (const Sample& sample : samples) {
    CAPTURE(sample.keys.strings());
    with_both += sample.fields.size() == 2;
  }
  CHECK(samples.size() == 55);
  CHECK(with_both == 20);
}

TEST_CASE("test_joined_metadataset_exclude", "[recipes][v2]") {
  const V2 v2;
  v2.write("ds1/.nv-meta/split.yaml",
           "split_parts:\n  train:\n  - parts/data-{0..5}.tar\nexclude:\n"
           "- parts/data-1.tar\n- parts/data-2.tar/000023\n- parts/data-3.tar/00003{0..4}\n");
  const auto path = v2.recipe("{join: [{path: ds1}, {path: ds3}], joiner: {__class__: Pair}}");
  energon::prepare_metadataset(path);
  CHECK(Stream(once(path)).take().size() == 39);
}

TEST_CASE("test_metadataset_with_join_in_blend", "[recipes][v2][fork]") {
  const V2 v2;
  const auto path = v2.recipe(
      "{blend: [{weight: 1, path: ds2}, {weight: 3, join: [{path: ds1}, {path: ds3}], "
      "joiner: {__class__: Pair}}]}");
  energon::prepare_metadataset(path);
  std::int64_t joined = 0;
  for (const Sample& sample : Stream(energon::train_dataset(path)).take(400)) {
    joined += sample.fields.size() == 2;
  }
  CHECK((joined > 250 && joined < 350));
  energon::TaskEncoder encoder;
  encoder.batch = [](std::span<Sample> samples) {
    return Mapping{{"count", static_cast<std::int64_t>(samples.size())}};
  };
  check_resumes(
      energon::train_dataset(path, {},
                             {.task_encoder = encoder, .batch_size = 5, .shuffle_buffer_size = 20}),
      {.worker_config = {.num_workers = 2}}, {0, 7, 50}, 30);
}

TEST_CASE("test_broken_shard_of_a_join", "[recipes][v2]") {
  // A shard of the second dataset vanishes after opening: only its samples are lost, and the report
  // names it.
  const V2 v2;
  const auto path = v2.recipe("{join: [{path: ds1}, {path: ds3}], joiner: {__class__: Pair}}");
  energon::prepare_metadataset(path);
  auto reports = std::make_shared<std::vector<energon::FailureReport>>();
  const energon::ErrorPolicy policy{.handler = [reports](const energon::FailureReport& report) {
    reports->push_back(report);
    return energon::FailureAction::kSkip;
  }};
  Stream stream(energon::val_dataset(path, {.split = "train"}, {.errors = {.standard = policy}}));
  std::filesystem::remove(v2.file("ds3/parts/data-1.tar"));
  CHECK(stream.take().size() == 30);
  REQUIRE(reports->size() == 1);
  CHECK(reports->front().is_shard_broken);
  CHECK_THAT(reports->front().samples.at(0).dataset_path, Catch::EndsWith("/ds3"));
  CHECK(reports->front().samples.at(0).shard_name == "parts/data-1.tar");
}

TEST_CASE("test_joiner_that_fails", "[recipes][v2]") {
  const V2 v2;
  const auto path = v2.recipe("{join: [{path: ds1}, {path: ds3}], joiner: {__class__: Pair}}");
  energon::prepare_metadataset(path);
  DataOptions data{.split = "train"};
  data.joiners["Pair"] = [](std::vector<JoinedColumn> columns) -> Mapping {
    const std::int64_t number = numbers(*columns.at(0).sample).front();
    if (number % 10 == 3) {
      throw std::runtime_error("no pair");
    }
    if (number % 10 == 4) {
      throw energon::SkipSample();
    }
    return energon::merge_columns(std::move(columns));
  };
  Stream skipping(energon::val_dataset(
      path, data, {.errors = {.standard = {.action = energon::FailureAction::kSkip}}}));
  CHECK(skipping.take().size() == 55 - 12);
  Stream failing(energon::val_dataset(path, data));
  CHECK(failing.take(3).size() == 3);
  CHECK_THROWS_WITH(failing.next(), Catch::Contains("no pair"));
}
