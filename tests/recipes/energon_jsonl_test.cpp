// Energon's test_jsonl_dataset.py as black-box tests.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::Sample;
using energon::testing::RecipeFolder;
using energon::testing::Stream;
using energon::testing::take_all;
using energon::testing::TempDir;
using energon::testing::write_jsonl;

namespace {

// The numbers in the lines.
std::vector<int> lines(const std::vector<Sample>& samples) {
  std::vector<int> result;
  for (const Sample& sample : samples) {
    result.push_back(nlohmann::json::parse(sample.bytes("json").text()).at("n").get<int>());
  }
  return result;
}

}  // namespace

TEST_CASE("test_jsonl", "[recipes][jsonl]") {
  const TempDir folder;
  write_jsonl(folder, "ds.jsonl", 55);
  Stream train(energon::train_dataset(folder.file("ds.jsonl"), {}, {.repeat = false}));
  auto seen = lines(train.take());
  REQUIRE(seen.size() == 55);
  std::sort(seen.begin(), seen.end());
  CHECK(seen.front() == 0);
  CHECK(seen.back() == 54);
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("test_jsonl_blend", "[recipes][jsonl]") {
  const RecipeFolder folder({});
  write_jsonl(folder, "a.jsonl", 55);
  write_jsonl(folder, "b.jsonl", 55, 100);
  write_jsonl(folder, "c.jsonl", 55, 200);
  const auto path = folder.recipe(
      "{blend: [{path: a.jsonl, weight: 5}, {path: b.jsonl, weight: 2}, "
      "{path: c.jsonl, weight: 3}]}");
  Stream stream(energon::train_dataset(path, {}, {.shuffle_buffer_size = 50}));
  std::vector<int> counts(3);
  for (const int line : lines(stream.take(1000))) {
    ++counts.at(static_cast<std::size_t>(line / 100));
  }
  CHECK((counts[0] > 450 && counts[0] < 550));
  CHECK((counts[1] > 150 && counts[1] < 250));
  CHECK((counts[2] > 250 && counts[2] < 350));
}

TEST_CASE("test_jsonl_multirank", "[recipes][jsonl]") {
  const TempDir folder;
  write_jsonl(folder, "ds.jsonl", 55);
  const auto make = energon::train_dataset(folder.file("ds.jsonl"), {}, {.repeat = false});
  std::vector<std::size_t> lengths;
  std::vector<int> seen;
  for (int rank = 0; rank < 3; ++rank) {
    std::size_t length = 0;
    for (int worker = 0; worker < 5; ++worker) {
      const auto part =
          lines(Stream(make, {.rank = rank, .world_size = 3, .num_workers = 5}, worker).take());
      length += part.size();
      seen.insert(seen.end(), part.begin(), part.end());
    }
    lengths.push_back(length);
  }
  CHECK(lengths == std::vector<std::size_t>{19, 19, 17});
  std::sort(seen.begin(), seen.end());
  CHECK(seen.size() == 55);
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("a line that changed after it was indexed is an error, other lines are delivered",
          "[recipes][jsonl]") {
  const TempDir folder;
  write_jsonl(folder, "ds.jsonl", 10);  // lines of nine bytes: {"n": 4}
  const std::string path = folder.file("ds.jsonl");
  energon::TrainOptions options;
  options.shuffle_over_epochs.mode = energon::ShuffleOverEpochs::Mode::kNone;
  options.parallel_slices = 1;
  options.repeat = false;
  const auto strict = energon::train_dataset(path, {}, options);
  options.errors.standard.action = energon::FailureAction::kSkip;
  const auto lenient = energon::train_dataset(path, {}, options);

  // Zeros over the end of line 4, with the same size and time.
  const auto time = std::filesystem::last_write_time(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5 * 9 - 1);
  file.put('\0');
  file.close();
  std::filesystem::last_write_time(path, time);

  CHECK_THROWS_WITH(Stream(strict).take(),
                    Catch::Contains("bytes 36 to 45 are not exactly one line of the file") &&
                        Catch::Contains(path) && Catch::Contains("sample: 4"));
  CHECK(lines(Stream(lenient).take()) == std::vector<int>{0, 1, 2, 3, 6, 7, 8, 9});
}

TEST_CASE("a file replaced by one of the same size and an older time is reindexed",
          "[recipes][jsonl]") {
  const TempDir folder;
  write_jsonl(folder, "ds.jsonl", 3);
  const std::string path = folder.file("ds.jsonl");
  CHECK(lines(Stream(energon::val_dataset(path)).take()) == std::vector<int>{0, 1, 2});
  folder.write("ds.jsonl", "{\"n\": 10}\n{\"n\": 1}\n{\"n\":2}\n");
  std::filesystem::last_write_time(path,
                                   std::filesystem::last_write_time(path) - std::chrono::hours(5));
  CHECK(lines(Stream(energon::val_dataset(path)).take()) == std::vector<int>{10, 1, 2});
}
