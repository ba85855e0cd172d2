#include "io/recipe/dataset_yaml.h"

#include <filesystem>
#include <utility>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "io/dataset/prepare_commit.h"
#include "io/error.h"
#include "io/recipe/recipe.h"
#include "tests/support/temp_dir.h"

using energon::DatasetYaml;
using energon::ErrorCode;
using energon::read_dataset_yaml;
using energon::ShuffleOverEpochs;
using energon::testing::TempDir;

namespace {

DatasetYaml parsed(const std::string& text) {
  const TempDir folder;
  folder.write(".nv-meta/dataset.yaml", text);
  return read_dataset_yaml(folder.path(), std::nullopt);
}

std::string refused(const std::string& text) {
  try {
    parsed(text);
  } catch (const energon::Error& error) {
    CHECK(error.code() == ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("settings of the order in dataset.yaml are read", "[io][formats][dataset_yaml]") {
  const DatasetYaml yaml = parsed(
      "subflavors: {language: de}\nsplit_config: other.yaml\nmax_samples_per_sequence: 100\n"
      "parallel_shard_iters: 4\nshuffle_over_epochs: 3\npart_filter: [jpg, json]\n");
  CHECK(yaml.subflavors->dump() == R"({"language":"de"})");
  CHECK(yaml.split_config == "other.yaml");
  CHECK(yaml.max_samples_per_sequence == std::optional<std::int64_t>(100));
  CHECK(yaml.parallel_shard_iters == std::optional<std::int64_t>(4));
  CHECK(yaml.shuffle_over_epochs == ShuffleOverEpochs{.epochs = 3});
  CHECK(yaml.part_filter == std::vector<std::string>{"jpg", "json"});
  CHECK(yaml.warnings.empty());
  CHECK(parsed("tags: {language: de}\n").subflavors->dump() == R"({"language":"de"})");
  CHECK_THAT(refused("tags: {}\nsubflavors: {}\n"),
             Catch::Contains("subflavors is another name of tags: set only one of them, line 2"));
}

TEST_CASE("null in dataset.yaml differs from an absent key", "[io][formats][dataset_yaml]") {
  const DatasetYaml yaml = parsed(
      "max_samples_per_sequence: null\nparallel_shard_iters: ~\nshuffle_over_epochs: null\n");
  REQUIRE(yaml.max_samples_per_sequence);
  CHECK_FALSE(*yaml.max_samples_per_sequence);
  REQUIRE(yaml.parallel_shard_iters);
  CHECK_FALSE(*yaml.parallel_shard_iters);
  CHECK(yaml.shuffle_over_epochs == ShuffleOverEpochs{.mode = ShuffleOverEpochs::Mode::kNone});
  const DatasetYaml nothing = parsed("__module__: megatron.energon\n__class__: CrudeWebdataset\n");
  CHECK_FALSE(nothing.max_samples_per_sequence);
  CHECK_FALSE(nothing.parallel_shard_iters);
  CHECK_FALSE(nothing.shuffle_over_epochs);
  CHECK_FALSE(nothing.part_filter);
  CHECK(nothing.warnings.empty());
  CHECK(parsed("shuffle_over_epochs: -1\n").shuffle_over_epochs ==
        ShuffleOverEpochs{.mode = ShuffleOverEpochs::Mode::kReplacement});
}

TEST_CASE("a warning names settings of typed samples", "[io][formats][dataset_yaml]") {
  const DatasetYaml yaml = parsed(
      "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n"
      "field_map: {image: jpg, caption: txt}\npart_filter: sample_loader.py:part_filter\n"
      "sample_loader: null\n");
  REQUIRE(yaml.warnings.size() == 1);
  CHECK_THAT(yaml.warnings[0],
             Catch::Contains("dataset.yaml: not applied: sample_type, field_map, part_filter; "));
  CHECK_FALSE(yaml.part_filter);
  CHECK_THAT(parsed("__class__: CaptioningWebdataset\n").warnings.at(0),
             Catch::Contains("not applied: __class__"));
}

TEST_CASE("invalid settings of dataset.yaml are refused with key and line",
          "[io][formats][dataset_yaml]") {
  CHECK_THAT(refused("subflavors: {}\nsplit_prat: val\n"),
             Catch::Contains("split_prat") && Catch::Contains("is not a known key") &&
                 Catch::Contains("line 2") && Catch::Contains("split_config"));
  CHECK_THAT(refused("split_part: val\n"), Catch::Contains("is not a known key"));
  CHECK_THAT(refused("shuffle_over_epochs: 0\n"),
             Catch::Contains("must be null, -1 or at least 1, found 0"));
  CHECK_THAT(refused("max_samples_per_sequence: 0\n"),
             Catch::Contains("must be null or at least 1, found 0"));
  CHECK_THAT(refused("parallel_shard_iters: many\n"), Catch::Contains("parallel_shard_iters"));
  CHECK_THAT(refused("subflavors: 3\n"), Catch::Contains("must be a mapping"));
  CHECK_THAT(refused("part_filter: {a: b}\n"), Catch::Contains("part_filter"));
}

TEST_CASE("a named file must exist", "[io][formats][dataset_yaml]") {
  const TempDir folder;
  CHECK(read_dataset_yaml(folder.path(), std::nullopt).warnings.empty());
  CHECK_THROWS_WITH(read_dataset_yaml(folder.path(), "crude.yaml"),
                    Catch::Contains("does not exist") && Catch::Contains("crude.yaml"));
}

TEST_CASE("a dataset.yaml that is a dangling or circular link does not count as absent",
          "[io][formats][dataset_yaml]") {
  const TempDir folder;
  std::filesystem::create_directory(folder.file(".nv-meta"));
  const auto [target, reason] = GENERATE(
      table<std::string, std::string>({{"dataset.yaml", "Too many levels of symbolic links"},
                                       {"no_such_file.yaml", "No such file or directory"}}));
  CAPTURE(target);
  std::filesystem::create_symlink(target, folder.file(".nv-meta/dataset.yaml"));
  CHECK_THROWS_WITH(read_dataset_yaml(folder.path(), std::nullopt),
                    Catch::Contains(reason) && Catch::Contains("dataset.yaml"));
}

TEST_CASE("dataset.yaml of an interrupted prepare is read after the prepare is finished",
          "[io][formats][dataset_yaml]") {
  const TempDir folder;
  folder.write(".nv-meta/dataset.yaml", "subflavors: {of: old}\n");
  const std::string staging = ".nv-meta.prepare.0123456789abcdef";
  folder.write(staging + "/0123456789abcdef/new", "subflavors: {of: new}\n");
  folder.write(staging + "/0123456789abcdef/journal",
               energon::encode_journal({{.from = "new", .to = ".nv-meta/dataset.yaml"}}));
  energon::publish_commit(folder.path(), folder.file(staging));
  CHECK(read_dataset_yaml(folder.path(), std::nullopt).subflavors->dump() == R"({"of":"new"})");
  CHECK_FALSE(std::filesystem::exists(energon::commit_folder(folder.path())));
}
