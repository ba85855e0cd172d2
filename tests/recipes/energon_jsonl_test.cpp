// Energon's test_jsonl_dataset.py as black-box tests.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/pipeline.h"

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
