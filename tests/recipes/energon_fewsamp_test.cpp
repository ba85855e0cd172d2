// Energon's test_metadataset_fewsamp.py as black-box tests: fewer samples than ranks.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::LoaderOptions;
using energon::testing::check_resumes;
using energon::testing::counts;
using energon::testing::Keys;
using energon::testing::keys;
using energon::testing::kTens;
using energon::testing::RecipeFolder;
using energon::testing::Stream;

namespace {

// A blend of 55, 7 and 55 samples.
class FewSamples : public RecipeFolder {
 public:
  FewSamples()
      : RecipeFolder({{.name = "ds1", .counts = kTens},
                      {.name = "ds2", .counts = {7}, .first = 100},
                      {.name = "ds3", .counts = kTens, .first = 200}}) {
    recipe("{blend: [{path: ds1}, {path: ds2}, {path: ds3}]}");
  }
};

}  // namespace

TEST_CASE("test_empty_subdataset", "[recipes][fewsamp]") {
  // 32 ranks: most get no sample of the small dataset, each gets some of the large one.
  const RecipeFolder folder(
      {{.name = "large", .counts = {60, 60}}, {.name = "small", .counts = {5}, .first = 1000}});
  const auto make = energon::train_dataset(
      folder.recipe("{blend: [{path: large, weight: 1}, {path: small, weight: 1}]}"), {},
      {.batch_size = 2});
  int with_small = 0;
  for (int rank = 0; rank < 32; ++rank) {
    CAPTURE(rank);
    const energon::WorkerConfig config{.rank = rank, .world_size = 32};
    Stream stream(make, config);
    const auto all = keys(stream.take(50));
    REQUIRE(all.size() == 100);
    with_small += std::any_of(all.begin(), all.end(), [](const auto& key) { return key > "001"; });
  }
  CHECK(with_small == 5);
  for (const int rank : {0, 7, 31}) {
    check_resumes(make, {.worker_config = {.rank = rank, .world_size = 32}}, {0, 1, 9, 30}, 20);
  }
}

TEST_CASE("test_metadataset_few_samples_save_restore", "[recipes][fewsamp][fork]") {
  // The first of 32 ranks has no sample of the middle dataset.
  const FewSamples few;
  const auto make =
      energon::train_dataset(few.file("m.yaml"), {}, {.batch_size = 1, .shuffle_buffer_size = 100});
  const LoaderOptions options{
      .worker_config = {.world_size = 32, .num_workers = 1, .seed_offset = 42},
      .checkpoint_every_batches = 1};
  energon::SavableDataLoader loader(make, options);
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const energon::Sample sample = loader.next().value();
    const std::string_view key = sample.keys.front();
    CHECK((key < "000100" || key > "000106"));
  }
  check_resumes(make, options, {3}, 5);
}

TEST_CASE("test_too_few_samples", "[recipes][fewsamp]") {
  // 117 samples of three datasets over 100 ranks.
  const FewSamples few;
  const auto weighted = energon::train_dataset(few.file("m.yaml"));
  auto data = energon::open_data(few.file("m.yaml"));
  data.mixing = energon::Mixing::kEpochized;
  const auto once = energon::train_pipeline(std::move(data), {.repeat = false});
  std::vector<int> with_two;
  for (int rank = 0; rank < 100; ++rank) {
    CAPTURE(rank);
    const energon::WorkerConfig config{.rank = rank, .world_size = 100};
    const Keys own = keys(Stream(once, config).take());
    REQUIRE((own.size() == 1 || own.size() == 2));
    if (own.size() == 2) {
      with_two.push_back(rank);
    }
    const auto seen = counts(keys(Stream(weighted, config).take(10)));
    CHECK(seen.size() == own.size());
    CHECK(seen.count(own.front()) == 1);
  }
  CHECK(with_two ==
        std::vector<int>{0, 3, 6, 12, 18, 25, 31, 37, 43, 50, 56, 62, 68, 75, 81, 87, 93});
}

TEST_CASE("test_rank_balance", "[recipes][fewsamp]") {
  const RecipeFolder folder({{.name = "ds", .counts = {40, 40, 37}}});
  const auto make = energon::train_dataset(folder.file("ds"), {}, {.repeat = false});
  std::vector<int> with_two;
  for (int rank = 0; rank < 100; ++rank) {
    CAPTURE(rank);
    const auto length = Stream(make, {.rank = rank, .world_size = 100}).take().size();
    REQUIRE((length == 1 || length == 2));
    if (length == 2) {
      with_two.push_back(rank);
    }
  }
  CHECK(with_two ==
        std::vector<int>{0, 3, 6, 12, 18, 25, 31, 37, 43, 50, 56, 62, 68, 75, 81, 87, 93});
}
