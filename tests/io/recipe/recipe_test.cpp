#include "io/recipe/recipe.h"

#include <chrono>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::AuxReference;
using energon::ErrorCode;
using energon::LeafReference;
using energon::load_recipe;
using energon::Mixing;
using energon::Recipe;
using energon::RecipeNode;
using energon::resolve;
using energon::SampleRange;
using energon::ShuffleOverEpochs;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

namespace {

// Prepared datasets a, b, c and d of two samples each, plain tars in `plain`, and metadatasets.
struct Fixture {
  Fixture() {
    for (const char* name : {"a", "b", "c", "d"}) {
      folder.write(fmt::format("{}/x.tar", name), make_shard(0, 2));
      prepare_folder(folder.file(name));
    }
    folder.write("plain/x.tar", make_shard(0, 2));
    folder.write("rows.jsonl", "{}\n");
  }

  std::string write_v1(const std::string& name, const std::string& content) const {
    return folder.write(name, content);
  }
  std::string write(const std::string& name, const std::string& content) const {
    return folder.write(name, "__module__: megatron.energon\n__class__: MetadatasetV2\n" + content);
  }
  // A split "train" of a metadataset of version 2.
  Recipe load(const std::string& train) const {
    return load_recipe(write("m.yaml", "splits: {train: " + train + "}"), "train");
  }
  std::pair<ErrorCode, std::string> error(const std::string& train) const {
    return error_of([&] { load(train); });
  }

  TempDir folder;
};

std::vector<double> weights(const Recipe& recipe) {
  std::vector<double> result;
  for (const LeafReference& leaf : recipe.leaves) {
    result.push_back(leaf.weight);
  }
  return result;
}

std::vector<double> repetitions(const Recipe& recipe) {
  std::vector<double> result;
  for (const LeafReference& leaf : recipe.leaves) {
    result.push_back(leaf.repetitions);
  }
  return result;
}

// "blend(2:a 1:metadataset(…))": factors and kinds, with the indices of the leaves.
std::string shape(const RecipeNode& node) {
  std::string text = node.factor ? fmt::format("{}:", *node.factor) : "";
  if (node.leaf) {
    return text + fmt::format("#{}", *node.leaf);
  }
  text += node.kind == RecipeNode::Kind::kMetadataset ? "file"
          : node.kind == RecipeNode::Kind::kBlend     ? "blend"
                                                      : "epochized";
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    text += (i == 0 ? "(" : " ") + shape(node.children[i]);
  }
  return text + ")";
}

}  // namespace

TEST_CASE("a single dataset is a recipe of one leaf", "[io][formats][recipe]") {
  const Fixture f;
  const Recipe prepared = load_recipe(f.folder.file("a") + "/", "val");
  CHECK(prepared.mixing == Mixing::kSingle);
  REQUIRE(prepared.leaves.size() == 1);
  CHECK(prepared.leaves[0].kind == LeafReference::Kind::kWebdataset);
  CHECK(prepared.leaves[0].path == f.folder.file("a"));
  CHECK(prepared.leaves[0].split_part == "val");
  CHECK(prepared.leaves[0].weight == 1);
  CHECK(prepared.root.leaf == 0);
  CHECK(load_recipe(f.folder.file("rows.jsonl"), "train").leaves[0].kind ==
        LeafReference::Kind::kJsonl);
  CHECK(load_recipe(f.folder.file("plain"), "train").leaves[0].kind ==
        LeafReference::Kind::kWebdataset);
  const std::string pattern = f.folder.file("plain/{x,y}.tar");
  CHECK(load_recipe(pattern, "train").leaves[0].path == pattern);
  CHECK(error_of([&] { load_recipe(f.folder.file("absent"), "train"); }).first ==
        ErrorCode::kNotFound);
}

TEST_CASE("a dataset may be read with other files in .nv-meta", "[io][formats][recipe]") {
  const Fixture f;
  f.folder.write("a/.nv-meta/other.yaml", "subflavors: {other: 2}\n");
  const energon::RecipeOptions options{.split_config = "split2.yaml",
                                       .dataset_config = "other.yaml"};
  const LeafReference leaf = load_recipe(f.folder.file("a"), "train", options).leaves.at(0);
  CHECK(leaf.subflavors->dump() == R"({"other":2})");
  CHECK(leaf.split_config == "split2.yaml");
  const std::string metadataset = f.write("m.yaml", "splits: {train: {path: a}}");
  for (const std::string& path : {metadataset, f.folder.file("rows.jsonl")}) {
    CAPTURE(path);
    CHECK(contains(error_of([&] { load_recipe(path, "train", options); }).second,
                   "only prepared datasets have a split_config and a dataset_config"));
  }
}

TEST_CASE("leaves can be listed although they are missing", "[io][formats][recipe]") {
  const Fixture f;
  f.folder.write("a/.nv-meta/dataset.yaml", "__class__: CrudeWebdataset\nsubflavors: {own: 1}\n");
  const auto list = [&f](const std::string& train) {
    return load_recipe(f.write("m.yaml", "splits: {train: " + train + "}"), "train",
                       {.lists_only = true});
  };
  const Recipe recipe = list(
      "{blend: [{path: absent, subflavors: {x: 1}, aux: {y: gone, z: 'filesystem://files'}},"
      " {path: a}, {join: [{path: a}, {path: absent}], joiner: {__class__: S, __module__: m}}]}");
  REQUIRE(recipe.leaves.size() == 3);
  CHECK(recipe.leaves[0].path == f.folder.file("absent"));
  CHECK(recipe.leaves[0].subflavors->dump() == R"({"x":1})");
  CHECK(recipe.leaves[0].aux.at(0).path == f.folder.file("gone"));
  CHECK(recipe.leaves[0].aux.at(1).kind == AuxReference::Kind::kFolder);
  CHECK(recipe.leaves[1].subflavors->dump() == "{}");
  CHECK(recipe.leaves[2].columns.at(1).path == f.folder.file("absent"));
  const auto [code, message] =
      error_of([&] { load_recipe(f.folder.file("none.yaml"), "train", {.lists_only = true}); });
  CHECK(code == ErrorCode::kNotFound);
}

TEST_CASE("weights are normalized by level and multiplied down", "[io][formats][recipe]") {
  const Fixture f;
  f.write_v1("left.yaml", "splits: {train: {datasets: [{path: a}, {path: b}]}}");
  f.write("right.yaml", "splits: {train: {blend: [{weight: 7, path: c}, {weight: 7, path: d}]}}");
  const Recipe recipe = f.load("{blend: [{weight: 4, path: left.yaml}, {path: right.yaml}]}");
  CHECK(recipe.mixing == Mixing::kWeighted);
  REQUIRE(recipe.leaves.size() == 4);
  const std::vector<double> expected = {.4, .4, .1, .1};
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(recipe.leaves[i].weight == Approx(expected[i]).epsilon(1e-15));
    CHECK(recipe.leaves[i].repetitions == 1);
  }
  CHECK(recipe.leaves[3].path == f.folder.file("d"));
  CHECK(shape(recipe.root) == "file(blend(4:file(blend(1:#0 1:#1)) 1:file(blend(7:#2 7:#3))))");
  CHECK(weights(f.load("{blend: [{weight: 3, path: a}]}")) == std::vector<double>{1});
}

TEST_CASE("repetitions are multiplied down", "[io][formats][recipe]") {
  const Fixture f;
  f.write("inner.yaml",
          "splits: {train: {blend_epochized: [{repetitions: 3, path: a}, {path: b}]}}");
  const Recipe recipe = f.load(
      "{blend_epochized: [{repetitions: 2, path: inner.yaml}, {repetitions: 0.7, path: c}]}");
  CHECK(recipe.mixing == Mixing::kEpochized);
  CHECK(repetitions(recipe) == std::vector<double>{6, 2, 0.7});
  CHECK(weights(recipe) == std::vector<double>{1, 1, 1});
}

TEST_CASE("weights that vanish or grow without bound are refused", "[io][formats][recipe]") {
  const Fixture f;
  CHECK(contains(f.error("{blend: [{weight: 1e308, path: a}, {weight: 1e308, path: b}]}").second,
                 "splits.train: the sum of the weights or repetitions is too large"));
  CHECK(contains(f.error("{blend: [{weight: 1e300, path: a}, {path: b}]}").second,
                 fmt::format("splits.train.blend[1]: the dataset '{}': its share of the blend is "
                             "1e-300, too small to be drawn (at least 1e-37)",
                             f.folder.file("b"))));
  CHECK(weights(f.load("{blend: [{weight: 1e18, path: a}, {path: b}]}"))[1] == 1e-18);
  CHECK(weights(f.load("{blend: [{weight: 1e300, path: a}]}")) == std::vector<double>{1});
  CHECK(contains(f.error("{blend_epochized: [{repetitions: 1e300, path: a}]}").second,
                 "1e+300 repetitions, with nested ones multiplied, are not from 1e-15 to 1e+15"));
  f.write("inner.yaml", "splits: {train: {blend_epochized: [{repetitions: 1e9, path: a}]}}");
  CHECK(contains(f.error("{blend_epochized: [{repetitions: 1e9, path: inner.yaml}]}").second,
                 "splits.train.blend_epochized[0]: the dataset"));
  CHECK(contains(f.error("{blend_epochized: [{repetitions: 1e-300, path: a}]}").second,
                 "1e-300 repetitions"));
}

TEST_CASE("a single reference passes on its target", "[io][formats][recipe]") {
  const Fixture f;
  f.write("inner.yaml", "splits: {train: {blend_epochized: [{path: a}]}, other: {path: b}}");
  CHECK(f.load("{path: inner.yaml}").mixing == Mixing::kEpochized);
  const Recipe other = f.load("{path: inner.yaml, split_part: other}");
  CHECK(other.mixing == Mixing::kSingle);
  CHECK(other.leaves.at(0).path == f.folder.file("b"));
  CHECK(other.leaves.at(0).split_part == "other");
}

TEST_CASE("blend and blend_epochized do not mix in one hierarchy", "[io][formats][recipe]") {
  const Fixture f;
  f.write("inner.yaml", "splits: {train: {blend_epochized: [{path: a}]}}");
  f.write("middle.yaml", "splits: {train: {path: inner.yaml}}");
  const auto [code, message] = f.error("{blend: [{path: b}, {path: middle.yaml}]}");
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "splits.train.blend[1] is a blend_epochized within a blend"));
  CHECK(contains(message, "m.yaml"));
}

TEST_CASE("split parts go down until a reference names another", "[io][formats][recipe]") {
  const Fixture f;
  f.write("inner.yaml",
          "splits: {val: {blend: [{path: a}, {path: b, split_part: mine}, {path: rows.jsonl}]}}");
  const Recipe recipe = f.load("{path: inner.yaml, split_part: val}");
  CHECK(recipe.leaves.at(0).split_part == "val");
  CHECK(recipe.leaves.at(1).split_part == "mine");
  CHECK(recipe.leaves.at(2).kind == LeafReference::Kind::kJsonl);
  const auto [code, message] = f.error("{path: inner.yaml}");
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "no split 'train'; known: val"));
}

TEST_CASE("outer subflavors win over inner ones, and all over dataset.yaml",
          "[io][formats][recipe]") {
  const Fixture f;
  f.folder.write("a/.nv-meta/dataset.yaml",
                 "__class__: CrudeWebdataset\nsubflavors: {own: 1, x: own, y: own}\n");
  f.folder.write("a/.nv-meta/other.yaml", "subflavors: {other: 2}\n");
  f.write("inner.yaml",
          "splits: {train: {blend: [{path: a, subflavors: {x: inner, y: inner, z: inner}}]}}");
  const Recipe recipe = f.load("{path: inner.yaml, subflavors: {y: outer, w: outer}}");
  CHECK(recipe.leaves.at(0).subflavors->dump() ==
        R"({"own":1,"x":"inner","y":"outer","z":"inner","w":"outer"})");
  CHECK(f.load("{path: a, dataset_config: other.yaml}").leaves.at(0).subflavors->dump() ==
        R"({"other":2})");
  CHECK(load_recipe(f.folder.file("b"), "train").leaves.at(0).subflavors->dump() == "{}");
  const auto [code, message] = f.error("{path: a, dataset_config: absent.yaml}");
  CHECK(code == ErrorCode::kNotFound);
  CHECK(contains(message, "the dataset_config does not exist"));
}

TEST_CASE("shuffle multipliers are combined down the hierarchy", "[io][formats][recipe]") {
  const Fixture f;
  f.write("inner.yaml",
          "splits: {train: {blend: [{path: a, shuffle_over_epochs_multiplier: 3}, "
          "{path: b, shuffle_over_epochs_multiplier: null}]}}");
  const Recipe recipe = f.load("{path: inner.yaml, shuffle_over_epochs_multiplier: 5}");
  CHECK(recipe.leaves.at(0).shuffle == ShuffleOverEpochs{.epochs = 15});
  CHECK(recipe.leaves.at(1).shuffle.mode == ShuffleOverEpochs::Mode::kNone);
}

TEST_CASE("subsets compose from the innermost one", "[io][formats][recipe]") {
  const Fixture f;
  CHECK(resolve(f.load("{path: a, subset: {range: [20%, 80%]}}").leaves.at(0).subset, 55) ==
        SampleRange{11, 44});
  f.write("inner.yaml",
          "splits: {train: {blend: [{path: a, subset: {range: [10, 30]}}, {path: b}]}}");
  const Recipe recipe = f.load("{path: inner.yaml, subset: {range: [20%, 80%]}}");
  CHECK(resolve(recipe.leaves.at(0).subset, 55) == SampleRange{14, 26});
  CHECK(resolve(recipe.leaves.at(1).subset, 55) == SampleRange{11, 44});
  const Recipe twice = f.load(
      "{blend: [{path: inner.yaml, subset: {range: [0%, 50%]}}, {path: c}], "
      "subset: {range: [50%, 100%]}}");
  CHECK(resolve(twice.leaves.at(1).subset, 100) == SampleRange{25, 50});
  CHECK(resolve(twice.leaves.at(2).subset, 100) == SampleRange{50, 100});
  const auto [code, message] = f.error("{path: inner.yaml, subset: {range: [50, end]}}");
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message,
                 "splits.train.subset: only a leaf dataset can have an absolute subset range"));
}

TEST_CASE("metadatasets that refer to each other in a circle are refused",
          "[io][formats][recipe]") {
  const Fixture f;
  f.write("one.yaml", "splits: {train: {path: two.yaml}}");
  f.write("two.yaml", "splits: {train: {blend: [{path: a}, {path: one.yaml}]}}");
  const auto [code, message] = error_of([&] { load_recipe(f.folder.file("one.yaml"), "train"); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, fmt::format("in a circle: {0}/one.yaml -> {0}/two.yaml -> {0}/one.yaml",
                                      f.folder.path())));
  f.write("self.yaml", "splits: {train: {blend: [{path: self.yaml}, {path: self.yaml}]}}");
  CHECK(contains(error_of([&] { load_recipe(f.folder.file("self.yaml"), "train"); }).second,
                 fmt::format("in a circle: {0}/self.yaml -> {0}/self.yaml", f.folder.path())));
}

TEST_CASE("a metadataset that is not UTF-8 is refused", "[io][formats][recipe]") {
  const TempDir folder;
  folder.write("m.yaml", "splits: {train: {datasets: [{path: a, subflavor: \xe9}]}}\n");
  CHECK_THROWS_WITH(energon::load_recipe(folder.file("m.yaml"), "train"), Catch::Contains("UTF-8"));
}

TEST_CASE("the depth of nesting is bounded", "[io][formats][recipe]") {
  const Fixture f;
  f.write("n0.yaml", "splits: {train: {path: a}}");
  for (int i = 1; i < 40; ++i) {
    f.write(fmt::format("n{}.yaml", i),
            fmt::format("splits: {{train: {{path: n{}.yaml}}}}", i - 1));
  }
  CHECK(load_recipe(f.folder.file("n31.yaml"), "train").leaves.size() == 1);
  CHECK(contains(error_of([&] { load_recipe(f.folder.file("n39.yaml"), "train"); }).second,
                 "nested deeper than 32 levels"));
}

TEST_CASE("metadatasets that multiply beyond the limit are refused", "[io][formats][recipe]") {
  const Fixture f;
  f.write("n0.yaml", "splits: {train: {path: rows.jsonl}}");
  for (int i = 1; i < 8; ++i) {
    std::string entries;
    for (int k = 0; k < 10; ++k) {
      entries += fmt::format("{{path: n{}.yaml}}, ", i - 1);
    }
    f.write(fmt::format("n{}.yaml", i), fmt::format("splits: {{train: {{blend: [{}]}}}}", entries));
  }
  CHECK(load_recipe(f.folder.file("n3.yaml"), "train").leaves.size() == 1000);
  const auto [code, message] = error_of([&] { load_recipe(f.folder.file("n7.yaml"), "train"); });
  CHECK(code == ErrorCode::kResourceExhausted);
  CHECK(contains(message, "the metadatasets name more than 100000 datasets"));
  CHECK(contains(message, f.folder.file("n7.yaml")));
}

TEST_CASE("files that double each other are counted before they are loaded",
          "[io][formats][recipe]") {
  const Fixture f;
  f.write("n0.yaml", "splits: {train: {path: rows.jsonl}}");
  for (int i = 1; i < 31; ++i) {
    f.write(fmt::format("n{0}.yaml", i),
            fmt::format("splits: {{train: {{blend: [{{path: n{0}.yaml}}, {{path: n{0}.yaml}}]}}}}",
                        i - 1));
  }
  const auto begin = std::chrono::steady_clock::now();
  CHECK(error_of([&] { load_recipe(f.folder.file("n30.yaml"), "train"); }).first ==
        ErrorCode::kResourceExhausted);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));  // not 2^30 loads
  // A missing dataset is reported when it is loaded.
  f.write("n0.yaml", "splits: {val: {path: rows.jsonl}}");
  CHECK(contains(error_of([&] { load_recipe(f.folder.file("n2.yaml"), "train"); }).second,
                 "has no split 'train'; known: val"));
}

TEST_CASE("a missing file is named with the metadataset that refers to it",
          "[io][formats][recipe]") {
  const Fixture f;
  const auto [code, message] = f.error("{blend: [{path: a}, {path: absent}]}");
  CHECK(code == ErrorCode::kNotFound);
  CHECK(contains(message, fmt::format("splits.train.blend[1] in {}: no such file or folder [path: "
                                      "{}]",
                                      f.folder.file("m.yaml"), f.folder.file("absent"))));
  f.folder.write("media/a.jpg", "");
  CHECK(contains(f.error("{path: media}").second, "it can only be an aux of a dataset"));
  CHECK(contains(
      f.error("{path: rows.jsonl, split_config: x.yaml}").second,
      "only prepared datasets have a split_config and a dataset_config, found: JSONL file"));
  CHECK(contains(f.error("{path: plain, dataset_config: x.yaml}").second, "plain tars"));
  CHECK(contains(f.error("{path: inner.yaml, aux: {x: a}}").second, "no such file"));
  f.write("inner.yaml", "splits: {train: {path: a}}");
  CHECK(contains(f.error("{path: inner.yaml, aux: {x: a}}").second, "aux belongs to a dataset"));
  CHECK(
      contains(f.error("{path: inner.yaml, dataset_config: x.yaml}").second, "found: metadataset"));
}

TEST_CASE("auxiliary data must exist, and be prepared if it is looked up by key",
          "[io][formats][recipe]") {
  const Fixture f;
  const Recipe recipe = f.load("{path: a, aux: {x: b, y: 'filesystem://plain', z: rows.jsonl}}");
  CHECK(recipe.leaves.at(0).aux.size() == 3);
  CHECK(recipe.leaves.at(0).aux.at(1) ==
        AuxReference{"y", AuxReference::Kind::kFolder, f.folder.file("plain")});
  CHECK(f.load("{path: rows.jsonl, aux: {x: b}}").leaves.at(0).aux.size() == 1);
  CHECK(contains(f.error("{path: a, aux: {x: plain}}").second,
                 "aux 'x': not a prepared dataset; run energon prepare on it"));
  CHECK(f.error("{path: a, aux: {x: 'filesystem://absent'}}").first == ErrorCode::kNotFound);
}

TEST_CASE("a join is one leaf whose columns have their split parts", "[io][formats][recipe]") {
  const Fixture f;
  f.folder.write("b/.nv-meta/dataset.yaml", "subflavors: {own: b}\n");
  const Recipe recipe = f.load(
      "{blend: [{weight: 3, path: d}, {join: {text: {path: a}, image: {path: b, split_part: val, "
      "subflavors: {s: column}}}, joiner: {__class__: C}, subflavors: {s: join}}]}");
  REQUIRE(recipe.leaves.size() == 2);
  const LeafReference& join = recipe.leaves[1];
  CHECK(join.kind == LeafReference::Kind::kJoin);
  CHECK(join.path == f.folder.file("m.yaml"));
  CHECK(join.weight == 0.25);
  CHECK(join.joiner.name == "C");
  CHECK(join.columns.at(0).split_part == "train");
  CHECK(join.columns.at(1).split_part == "val");
  CHECK(join.columns.at(1).subflavors->dump() == R"({"own":"b","s":"join"})");
  CHECK(join.subflavors->dump() == R"({"s":"join"})");
  CHECK_FALSE(join.is_split_in_index_name);
  CHECK(contains(f.error("{join: [{path: a}, {path: plain}], joiner: {__class__: C}}").second,
                 "splits.train in " + f.folder.file("m.yaml") +
                     ": only prepared datasets can be joined, found: plain tars"));
  CHECK(f.error("{join: [{path: a}, {path: absent}], joiner: {__class__: C}}").first ==
        ErrorCode::kNotFound);
}

TEST_CASE("joins that differ only in their split need it in the name of the index",
          "[io][formats][recipe]") {
  const Fixture f;
  const std::string columns = "join: [{path: a}, {path: b}], joiner: {__class__: C}";
  const auto is_needed = [&](const std::string& val) {
    const std::string path =
        f.write("j.yaml", fmt::format("splits: {{train: {{{}}}, val: {}}}", columns, val));
    return load_recipe(path, "train").leaves.at(0).is_split_in_index_name;
  };
  CHECK(is_needed("{" + columns + "}"));
  CHECK_FALSE(is_needed("{" + columns + ", split_part: train}"));
  CHECK_FALSE(is_needed("{join: [{path: b}, {path: a}], joiner: {__class__: C}}"));
  CHECK(
      is_needed("{join: [{path: a, split_part: train}, {path: b, split_part: train, "
                "split_config: x.yaml}], joiner: {__class__: C}}"));
}
