// Energon's test_metadataset.py (V1) as black-box tests, by name and numbers: two datasets of 55
// samples, blended by a nested metadataset.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/recipe/recipe.h"
#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::LoaderOptions;
using energon::PipelineFactory;
using energon::Sample;
using energon::TrainOptions;
using energon::testing::check_resumes;
using energon::testing::counts;
using energon::testing::Keys;
using energon::testing::keys;
using energon::testing::kTwoOf55;
using energon::testing::labels;
using energon::testing::RecipeFolder;
using energon::testing::Stream;

namespace {

// nested.yaml blends inner.yaml 4 : 1 with itself, inner.yaml blends ds1 and ds2 1 : 1.
class Nested : public RecipeFolder {
 public:
  Nested() : RecipeFolder(kTwoOf55) {
    write("inner.yaml", R"(
splits:
  train:
    datasets:
    - {path: ds1, subflavor: ds1, weight: 10, subflavors: {source: inner, number: 43}}
    - {path: ds2, subflavor: ds2, weight: 10}
  val:
    datasets:
    - {path: ds1, split_part: train}
    - {path: ds2, split_part: train}
)");
    write("nested.yaml", R"(
splits:
  train:
    datasets:
    - {path: inner.yaml, weight: 4, subflavors: {source: nested}}
    - {path: inner.yaml, weight: 1}
)");
  }

  PipelineFactory train(const std::string& name, TrainOptions options) const {
    return energon::train_dataset(file(name), {}, std::move(options));
  }
};

}  // namespace

TEST_CASE("test_metadataset", "[recipes][metadataset]") {
  const Nested nested;
  const auto data = energon::open_data(nested.file("inner.yaml"));
  REQUIRE(data.leaves.size() == 2);
  CHECK(data.leaves[0].weight == 0.5);
  CHECK(data.leaves[0].subflavors == R"({"__subflavor__":"ds1","source":"inner","number":43})");
  Stream stream(nested.train("inner.yaml", {}));
  for (const auto& [key, count] : counts(keys(stream.take(110 * 50)))) {
    INFO(key);
    CHECK((count >= 48 && count <= 52));
  }
}

TEST_CASE("test_nested_metadataset", "[recipes][metadataset]") {
  const Nested nested;
  const auto data = energon::open_data(nested.file("nested.yaml"));
  std::vector<double> weights;
  for (const auto& leaf : data.leaves) {
    weights.push_back(leaf.weight);
  }
  REQUIRE(weights.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(weights[i] == Approx(std::vector{0.4, 0.4, 0.1, 0.1}[i]));
  }
  CHECK(data.leaves[0].subflavors == R"({"__subflavor__":"ds1","source":"nested","number":43})");
  CHECK(data.leaves[1].subflavors == R"({"__subflavor__":"ds2","source":"nested"})");
  CHECK(data.leaves[2].subflavors == R"({"__subflavor__":"ds1","source":"inner","number":43})");

  // Samples carry their labels.
  Stream stream(nested.train("nested.yaml", {.batch_size = 10}));
  std::set<std::string> seen;
  for (const Sample& batch : stream.take(50)) {
    CAPTURE(batch.keys.strings());
    REQUIRE(batch.sources.size() == 10);
    for (std::size_t i = 0; i < 10; ++i) {
      seen.insert(source_of(batch, i).shard->subflavors);
    }
  }
  CHECK(seen.size() == 4);
}

TEST_CASE("test_nested_val", "[recipes][metadataset]") {
  const Nested nested;
  Stream stream(energon::val_dataset(nested.file("inner.yaml")));
  const Keys all = keys(stream.take());
  REQUIRE(all.size() == 110);
  CHECK(all.front() == "000000");
  CHECK(all[55] == "000100");
  CHECK(std::is_sorted(all.begin(), all.end()));
}

TEST_CASE("test_save_restore_state_train", "[recipes][metadataset]") {
  const Nested nested;
  // Seven saves around the end of a virtual epoch.
  check_resumes(nested.train("nested.yaml", {.batch_size = 10,
                                             .shuffle_buffer_size = 20,
                                             .max_samples_per_sequence = 5,
                                             .virtual_epoch_length = 12}),
                {}, {0, 5, 10, 11, 12, 13, 14}, 30);
}

TEST_CASE("test_save_restore_state_train_workers", "[recipes][metadataset][fork]") {
  const Nested nested;
  check_resumes(
      nested.train("nested.yaml",
                   {.batch_size = 1, .shuffle_buffer_size = 20, .max_samples_per_sequence = 5}),
      {.worker_config = {.num_workers = 1}}, {0, 1, 5, 20, 110}, 60);
}

TEST_CASE("test_save_restore_state_train_epochize_workers", "[recipes][metadataset][fork]") {
  const Nested nested;
  check_resumes(nested.train("nested.yaml", {.batch_size = 1,
                                             .shuffle_buffer_size = 20,
                                             .max_samples_per_sequence = 5,
                                             .virtual_epoch_length = 19}),
                {.worker_config = {.num_workers = 2}}, {0, 1, 5, 17, 18, 19, 20, 21, 40}, 60);
}

TEST_CASE("test_save_restore_state_val", "[recipes][metadataset]") {
  const Nested nested;
  check_resumes(energon::val_dataset(nested.file("inner.yaml"), {.split = "val"},
                                     {.batch_size = 10, .limit = 7}),
                {}, {0, 1, 6, 7, 8, 9, 16}, 20);
}

TEST_CASE("test_blending_randomness", "[recipes][metadataset]") {
  const Nested nested;
  const auto make = nested.train("inner.yaml", {});
  const auto sources = [&make](int rank) {
    std::vector<bool> second;
    Stream stream(make, {.rank = rank, .world_size = 4});
    for (const Sample& sample : stream.take(100)) {
      second.push_back(sample.keys.front() >= "000100");
    }
    return second;
  };
  std::set<std::vector<bool>> distinct;
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const auto drawn = sources(rank);
    distinct.insert(drawn);
    const auto ones = std::count(drawn.begin(), drawn.end(), true);
    CHECK((ones > 25 && ones < 75));
  }
  CHECK(distinct.size() == 4);
}

TEST_CASE("test_slice_iter_shuffle_over_epochs", "[recipes][metadataset]") {
  const Nested nested;
  nested.write("replacement.yaml", R"(
splits:
  train:
    datasets:
    - {path: ds1, shuffle_over_epochs_multiplier: -1}
    - {path: ds2, shuffle_over_epochs_multiplier: 2}
)");
  Stream stream(nested.train("replacement.yaml", {}));
  CHECK(stream.take(1000).size() == 1000);
  CHECK_FALSE(stream.dataset().size());
}

TEST_CASE("test_save_restore_next", "[recipes][metadataset][fork]") {
  const Nested nested;
  const auto make = nested.train("nested.yaml", {.batch_size = 1, .shuffle_buffer_size = 2});
  const LoaderOptions options{.worker_config = {.num_workers = 6}};
  energon::SavableDataLoader original(make, options);
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    const auto state = original.save_state_rank();
    energon::SavableDataLoader restored(make, options);
    restored.restore_state_rank(state);
    // The state of a restored loader that has not started equals the original's.
    CHECK(encode_loader_state(restored.save_state_rank()) == encode_loader_state(state));
    CHECK(labels(restored, 1) == labels(original, 1));
  }
}

TEST_CASE("test_worker_sample_balance", "[recipes][metadataset]") {
  // The share of each worker of two ranks over all four leaves: the remainders of the leaves go to
  // different workers.
  const Nested nested;
  auto data = energon::open_data(nested.file("nested.yaml"));
  REQUIRE(data.leaves.size() == 4);
  data.mixing = energon::Mixing::kEpochized;
  const auto make = energon::train_pipeline(std::move(data), {.repeat = false});
  const auto lengths = [&make](int workers) {
    std::vector<std::size_t> result;
    for (int rank = 0; rank < 2; ++rank) {
      for (int worker = 0; worker < workers; ++worker) {
        Stream stream(make, {.rank = rank, .world_size = 2, .num_workers = workers}, worker);
        result.push_back(stream.take().size());
      }
    }
    return result;
  };
  CHECK(lengths(6) == std::vector<std::size_t>{19, 18, 18, 19, 18, 18, 19, 18, 18, 19, 18, 18});
  CHECK(lengths(30) == std::vector<std::size_t>{4, 4, 4, 4, 3, 4, 3, 4, 4, 4, 3, 4, 3, 4, 3,
                                                4, 4, 4, 4, 3, 4, 3, 4, 4, 4, 3, 4, 3, 4, 3,
                                                4, 4, 4, 4, 3, 4, 3, 4, 4, 4, 3, 4, 3, 4, 3,
                                                4, 4, 4, 4, 3, 4, 3, 4, 4, 4, 3, 4, 3, 4, 3});
}
