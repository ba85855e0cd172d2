// dataset.yaml as in Energon: its settings of splits, slices, shuffling and parts override the
// pipeline's options.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/recipes/streams.h"
#include "tests/support/recipe_folder.h"
#include "wrappers/recipe/pipeline.h"

using energon::ShuffleOverEpochs;
using energon::TrainOptions;
using energon::testing::Keys;
using energon::testing::keys;
using energon::testing::kTens;
using energon::testing::RecipeFolder;
using energon::testing::Stream;

namespace {

// One dataset with this dataset.yaml.
class Folder : public RecipeFolder {
 public:
  explicit Folder(const std::string& yaml) : RecipeFolder({{.name = "ds", .counts = kTens}}) {
    write("ds/.nv-meta/dataset.yaml", yaml);
  }

  // Keys of the first `count` samples in training.
  Keys train(const TrainOptions& options, std::size_t count = 120) const {
    return keys(Stream(energon::train_dataset(file("ds"), {}, options)).take(count));
  }
};

const std::string kCrude = "__module__: megatron.energon\n__class__: CrudeWebdataset\n";

}  // namespace

TEST_CASE("order settings in dataset.yaml act like the options", "[recipes][dataset]") {
  const Folder plain(kCrude);
  CHECK(Folder(kCrude + "max_samples_per_sequence: 3\n").train({}) ==
        plain.train({.max_samples_per_sequence = 3}));
  CHECK(Folder(kCrude + "parallel_shard_iters: 2\n").train({}) ==
        plain.train({.parallel_slices = 2}));
  CHECK(Folder(kCrude + "shuffle_over_epochs: 2\n").train({}) ==
        plain.train({.shuffle_over_epochs = {.epochs = 2}}));
  CHECK(Folder(kCrude + "shuffle_over_epochs: -1\n").train({}) ==
        plain.train({.shuffle_over_epochs = {.mode = ShuffleOverEpochs::Mode::kReplacement}}));
  CHECK(Folder(kCrude + "shuffle_over_epochs: null\n").train({}) ==
        plain.train({.shuffle_over_epochs = {.mode = ShuffleOverEpochs::Mode::kNone},
                     .parallel_slices = 1}));
  CHECK(plain.train({.max_samples_per_sequence = 3}) != plain.train({}));
  CHECK(plain.train({.parallel_slices = 2}) != plain.train({}));
  CHECK(plain.train({.shuffle_over_epochs = {.epochs = 2}}) != plain.train({}));
}

TEST_CASE("dataset.yaml overrides the options, even with null", "[recipes][dataset]") {
  const Folder plain(kCrude);
  CHECK(Folder(kCrude + "max_samples_per_sequence: null\nparallel_shard_iters: null\n"
                        "shuffle_over_epochs: 1\n")
            .train({.max_samples_per_sequence = 3,
                    .shuffle_over_epochs = {.epochs = 2},
                    .parallel_slices = 2}) == plain.train({}));
}

TEST_CASE("dataset.yaml selects the split file", "[recipes][dataset]") {
  const Folder folder(kCrude + "split_config: small.yaml\n");
  folder.write("ds/.nv-meta/small.yaml",
               "split_parts:\n  train: [parts/data-5.tar]\nexclude: []\n");
  CHECK(keys(Stream(energon::val_dataset(folder.file("ds"), {.split = "train"})).take()) ==
        Keys{"000050", "000051", "000052", "000053", "000054"});
  // Also in a metadataset that names a different one, with a warning.
  folder.write("ds/.nv-meta/other.yaml",
               "split_parts:\n  train: [parts/data-0.tar]\nexclude: []\n");
  const std::string path = folder.recipe("{path: ds, split_part: train, split_config: other.yaml}");
  const energon::PipelineData data = energon::open_data(path);
  CHECK(data.leaves.at(0).length == 5);
  REQUIRE(data.warnings.size() == 1);
  CHECK_THAT(data.warnings[0], Catch::Contains("'small.yaml' from dataset.yaml overrides"));
}

TEST_CASE("dataset.yaml selects the parts of the samples", "[recipes][dataset]") {
  const auto parts = [](const std::string& yaml) {
    const Folder folder(kCrude + yaml);
    const auto samples =
        Stream(energon::val_dataset(folder.file("ds"), {.split = "train"})).take(1);
    std::vector<std::string> names;
    for (const auto& [name, value] : samples.at(0).fields) {
      names.push_back(name);
    }
    return names;
  };
  CHECK(parts("") == std::vector<std::string>{"txt"});
  CHECK(parts("part_filter: [txt, jpg]\n") == std::vector<std::string>{"txt"});
  CHECK(parts("part_filter: [jpg]\n").empty());
}

TEST_CASE("an unknown key of dataset.yaml is an error, a key of typed samples a warning",
          "[recipes][dataset]") {
  CHECK_THROWS_WITH(Folder("shuffel_over_epochs: 2\n").train({}),
                    Catch::Contains("shuffel_over_epochs") && Catch::Contains("dataset.yaml"));
  const Folder typed("sample_type: {__class__: TextSample}\nfield_map: {text: txt}\n");
  const energon::PipelineData data = energon::open_data(typed.file("ds"));
  REQUIRE(data.warnings.size() == 1);
  CHECK_THAT(data.warnings[0], Catch::Contains("not applied: sample_type, field_map"));
}
