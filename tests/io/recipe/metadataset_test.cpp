#include "io/recipe/metadataset.h"

#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::AuxReference;
using energon::ErrorCode;
using energon::Joiner;
using energon::Metadataset;
using energon::MetadatasetJoin;
using energon::MetadatasetPath;
using energon::Mixing;
using energon::Nonmatch;
using energon::parse_metadataset;
using energon::ShuffleOverEpochs;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::TempDir;
using Mode = ShuffleOverEpochs::Mode;

namespace {

constexpr const char* kV2 = "__module__: megatron.energon\n__class__: MetadatasetV2\n";

Metadataset parse_v2(const std::string& splits) {
  return parse_metadataset(kV2 + splits, "/data/mds.yaml");
}

// The text of the error; it must be kInvalidArgument and name the file.
std::string error_text(const std::string& text) {
  const auto [code, message] = error_of([&] { parse_metadataset(text, "/data/mds.yaml"); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "[path: /data/mds.yaml"));
  return message;
}

std::string error_text_v2(const std::string& splits) { return error_text(kV2 + splits); }

const MetadatasetPath& path_of(const energon::MetadatasetEntry& entry) {
  return std::get<MetadatasetPath>(entry.source);
}

}  // namespace

TEST_CASE("a metadataset of version 1 is read with all its fields", "[io][formats][metadataset]") {
  const Metadataset file = parse_metadataset(
      "splits:\n"
      "  train:\n"
      "    datasets:\n"
      "    - path: a\n"
      "      weight: 4\n"
      "      subflavor: old\n"
      "      subflavors: {x: 1}\n"
      "    - path: /abs/b/\n"
      "      split_part: val\n"
      "      dataset_config: mine.yaml\n"
      "      split_config: split.yaml\n"
      "      shuffle_over_epochs_multiplier: 3\n"
      "  val:\n"
      "    datasets:\n"
      "    - {path: ../c.jsonl, subflavor: old, subflavors: {__subflavor__: new}}\n",
      "/data/mds.yaml");
  CHECK(file.version == 1);
  REQUIRE(file.splits.size() == 2);
  CHECK(file.split("train").mixing == Mixing::kWeighted);
  const auto& train = file.split("train").entries;
  CHECK(path_of(train[0]).path == "/data/a");
  CHECK(train[0].factor == 4);
  CHECK(train[0].subflavors->dump() == R"({"__subflavor__":"old","x":1})");
  CHECK(train[0].place == "splits.train.datasets[0]");
  CHECK_FALSE(train[0].split_part);
  CHECK(path_of(train[1]).path == "/abs/b");
  CHECK(train[1].factor == 1);
  CHECK(train[1].split_part == "val");
  CHECK(path_of(train[1]).dataset_config == "mine.yaml");
  CHECK_FALSE(path_of(train[1]).split_config);  // the default
  CHECK(train[1].shuffle == ShuffleOverEpochs{.epochs = 3});
  CHECK(path_of(file.split("val").entries[0]).path == "/c.jsonl");
  CHECK(file.split("val").entries[0].subflavors->dump() == R"({"__subflavor__":"new"})");
}

TEST_CASE("the class determines the version", "[io][formats][metadataset]") {
  const std::string v1 = "splits: {train: {datasets: [{path: a}]}}\n";
  CHECK(parse_metadataset("__class__: Metadataset\n" + v1, "m.yaml").version == 1);
  CHECK(parse_v2("splits: {train: {path: a}}").version == 2);
  CHECK(contains(
      error_text("__class__: CrudeWebdataset\n" + v1),
      "__class__ must be Metadataset, MetadatasetV2 or Recipe, found 'CrudeWebdataset', line 1"));
  CHECK(contains(error_text("__module__: mine\n" + v1), "__module__ must be megatron.energon"));
  CHECK(contains(error_text("splits: {train: {blend: [{path: a}]}}"),
                 "splits.train.blend is not a known key; known: datasets; the file has version 1 "
                 "unless it sets __class__: MetadatasetV2, line 1"));
}

TEST_CASE("recipes and tags are other names", "[io][formats][metadataset]") {
  const std::string recipe =
      "splits:\n"
      "  train:\n"
      "    blend_weight_unit: samples\n"
      "    blend:\n"
      "    - {path: a, tags: {kind: x}}\n"
      "    - {path: b, subflavors: {kind: y}}\n"
      "  val: {joiner: {__class__: J}, join: [{path: a, tags: {z: 1}}]}\n";
  const Metadataset file = parse_metadataset("__class__: Recipe\n" + recipe, "m.yaml");
  CHECK(file.version == 2);
  const auto& train = file.split("train").entries;
  CHECK(train[0].subflavors->dump() == R"({"kind":"x"})");
  CHECK(train[1].subflavors->dump() == R"({"kind":"y"})");
  const auto& join = std::get<energon::MetadatasetJoin>(file.split("val").entries[0].source);
  CHECK(join.columns[0].subflavors->dump() == R"({"z":1})");
  CHECK(parse_metadataset("splits: {train: {datasets: [{path: a, tags: {k: 1}}]}}", "m.yaml")
            .split("train")
            .entries[0]
            .subflavors->dump() == R"({"k":1})");
  CHECK(contains(error_text("__class__: Recipe\nsplits: {t: {path: a, tags: {}, subflavors: {}}}"),
                 "splits.t.tags is another name of subflavors: set only one of them"));
  CHECK(contains(
      error_text("__class__: Recipe\nsplits: {t: {blend_weight_unit: tokens, blend: [{path: a}]}}"),
      "splits.t.blend_weight_unit must be samples, found 'tokens'"));
}

TEST_CASE("blends of version 2 are read", "[io][formats][metadataset]") {
  const Metadataset file = parse_v2(
      "splits:\n"
      "  train:\n"
      "    blend:\n"
      "    - {weight: 2.5, path: a, subset: {range: [10, 30]}}\n"
      "    - {path: b, shuffle_over_epochs_multiplier: null}\n"
      "    - {path: b, shuffle_over_epochs_multiplier: -1}\n"
      "    subset: {range: [20%, 80%]}\n"
      "  epochs:\n"
      "    blend_epochized:\n"
      "    - {repetitions: 0.7, path: a}\n"
      "  single: {path: a, subset: {range: [0, end]}}\n");
  const auto& train = file.split("train");
  CHECK(train.mixing == Mixing::kWeighted);
  CHECK(train.subset == energon::parse_subset("20%", "80%"));
  REQUIRE(train.entries.size() == 3);
  CHECK(train.entries[0].factor == 2.5);
  CHECK(train.entries[0].subset == energon::parse_subset("10", "30"));
  CHECK(train.entries[1].shuffle == ShuffleOverEpochs{.mode = Mode::kNone});
  CHECK(train.entries[2].shuffle == ShuffleOverEpochs{.mode = Mode::kReplacement});
  CHECK(file.split("epochs").mixing == Mixing::kEpochized);
  CHECK(file.split("epochs").entries[0].factor == 0.7);
  CHECK(file.split("single").mixing == Mixing::kSingle);
  CHECK(file.split("single").entries[0].place == "splits.single");
}

TEST_CASE("joins are read as lists and as mappings", "[io][formats][metadataset]") {
  const Metadataset file = parse_v2(
      "splits:\n"
      "  train:\n"
      "    join:\n"
      "    - {path: a, split_part: first}\n"
      "    - {path: b, nonmatch: skip, split_config: mine.yaml, subflavors: {s: b}}\n"
      "    joiner: {__module__: my.module, __class__: Joined}\n"
      "    split_part: part\n"
      "  val:\n"
      "    blend:\n"
      "    - weight: 2\n"
      "      join:\n"
      "        text: {path: a}\n"
      "        image: {path: b, nonmatch: none}\n"
      "      joiner: {__function__: combine}\n");
  const auto& train = file.split("train").entries.at(0);
  const auto& list = std::get<MetadatasetJoin>(train.source);
  CHECK(train.split_part == "part");
  REQUIRE(list.columns.size() == 2);
  CHECK(list.columns[0].name.empty());
  CHECK(list.columns[0].path == "/data/a");
  CHECK(list.columns[0].split_part == "first");
  CHECK(list.columns[0].nonmatch == Nonmatch::kError);
  CHECK(list.columns[1].nonmatch == Nonmatch::kSkip);
  CHECK(list.columns[1].split_config == "mine.yaml");
  CHECK(list.columns[1].subflavors->dump() == R"({"s":"b"})");
  CHECK(list.joiner ==
        Joiner{.kind = Joiner::Kind::kClass, .module = "my.module", .name = "Joined"});
  const auto& val = file.split("val").entries.at(0);
  const auto& mapping = std::get<MetadatasetJoin>(val.source);
  CHECK(val.factor == 2);
  CHECK(mapping.columns.at(0).name == "text");
  CHECK(mapping.columns.at(1).name == "image");
  CHECK(mapping.columns.at(1).nonmatch == Nonmatch::kNone);
  CHECK(mapping.joiner == Joiner{.kind = Joiner::Kind::kFunction, .module = "", .name = "combine"});
}

TEST_CASE("auxiliary data is read in all its forms", "[io][formats][metadataset]") {
  const Metadataset file = parse_v2(
      "splits:\n"
      "  train:\n"
      "    path: a\n"
      "    aux:\n"
      "      one: b\n"
      "      two: filesystem://images\n"
      "      three: filesystem:///abs/images\n"
      "      four: {path: c}\n"
      "      five: {fs_path: d}\n"
      "      six: e.jsonl\n"
      "      seven: file:///abs/f\n");
  using Kind = AuxReference::Kind;
  CHECK(path_of(file.split("train").entries[0]).aux ==
        std::vector<AuxReference>{{"one", Kind::kWebdataset, "/data/b"},
                                  {"two", Kind::kFolder, "/data/images"},
                                  {"three", Kind::kFolder, "/abs/images"},
                                  {"four", Kind::kWebdataset, "/data/c"},
                                  {"five", Kind::kFolder, "/data/d"},
                                  {"six", Kind::kJsonl, "/data/e.jsonl"},
                                  {"seven", Kind::kWebdataset, "/abs/f"}});
}

TEST_CASE("scalars have the types that Energon gives them", "[io][formats][metadataset]") {
  const Metadataset file = parse_v2(
      "splits:\n"
      "  train:\n"
      "    path: a\n"
      "    subflavors:\n"
      "      a: [1, -2, +3, 1.5, 1e3, .5, '1', \"yes\"]\n"
      "      b: [yes, NO, True, false, null, ~, , Null]\n"
      "      c: [text, 1.2.3, 0x10, e, 1 2, nan, .inf]\n"
      "      d: {e: {f: g}}\n");
  CHECK(file.split("train").entries[0].subflavors->dump() ==
        R"({"a":[1,-2,3,1.5,1000.0,0.5,"1","yes"],)"
        R"("b":[true,false,true,false,null,null,null,null],)"
        R"("c":["text","1.2.3","0x10","e","1 2","nan",".inf"],"d":{"e":{"f":"g"}}})");
}

TEST_CASE("an unknown key is an error with its place and the known keys",
          "[io][formats][metadataset]") {
  CHECK(contains(error_text_v2("splits: {}\nextra: 1"),
                 "extra is not a known key; known: __module__, __class__, splits, line 4"));
  CHECK(contains(error_text_v2("splits:\n  train:\n    blend:\n    - {path: a}\n"
                               "    - {path: b, wieght: 3}"),
                 "splits.train.blend[1].wieght is not a known key; known: path, dataset_config, "
                 "split_config, aux, media_filter, split_part, subflavors, tags, "
                 "shuffle_over_epochs_multiplier, "
                 "subset, weight; or join, joiner, line 7"));
  CHECK(contains(error_text_v2("splits: {train: {paht: a}}"), "or blend, blend_epochized, join"));
  CHECK(contains(error_text_v2("splits: {train: {blend: [{path: a, repetitions: 2}]}}"),
                 "splits.train.blend[0].repetitions is not a known key"));
  CHECK(contains(error_text_v2("splits: {train: {blend: [{path: a}], blend_epochized: []}}"),
                 "splits.train.blend_epochized is not a known key"));
  CHECK(contains(error_text_v2("splits: {train: {path: a, subset: {rnage: [0, 1]}}}"),
                 "splits.train.subset.rnage is not a known key; known: range"));
  CHECK(contains(error_text_v2("splits: {train: {join: [{path: a, aux: {}}], joiner: {}}}"),
                 "joiner must have either __class__ or __function__"));
  CHECK(contains(error_text_v2("splits: {train: {join: [{path: a, subset: {}}], "
                               "joiner: {__class__: C}}}"),
                 "splits.train.join[0].subset is not a known key; known: path, split_part, "
                 "subflavors, tags, dataset_config, split_config, nonmatch"));
  CHECK(contains(error_text("splits: {t: {datasets: [{path: a, aux: {}}]}}"),
                 "splits.t.datasets[0].aux is not a known key; known: path, weight"));
}

TEST_CASE("a metadataset without splits is refused", "[io][formats][metadataset]") {
  CHECK(contains(error_text_v2("splits: {}"), "splits must name at least one split"));
}

TEST_CASE("invalid values are errors with their place", "[io][formats][metadataset]") {
  const auto entry_error = [](const std::string& fields) {
    return error_text_v2("splits: {train: {blend: [{path: a, " + fields + "}]}}");
  };
  CHECK(
      contains(entry_error("weight: 0"), "splits.train.blend[0].weight must be above 0, found 0"));
  CHECK(contains(entry_error("weight: -1"), "must be above 0, found -1"));
  CHECK(contains(entry_error("weight: much"), "weight must be a number, found 'much'"));
  CHECK(contains(entry_error("weight: '1'"), "weight must be a number, found '1'"));
  CHECK(contains(entry_error("weight: [1]"), "weight must be a number, line 3"));
  for (const std::string word : {".nan", "nan", "inf", "-.inf"}) {
    CAPTURE(word);
    CHECK(contains(entry_error("weight: " + word),
                   "weight must be a finite number, found '" + word + "'"));
  }
  CHECK(contains(entry_error("weight: 1e400"), "weight is out of range for a number"));
  CHECK(contains(entry_error("shuffle_over_epochs_multiplier: 99999999999999999999"),
                 "is too large for an integer"));
  CHECK(contains(entry_error("shuffle_over_epochs_multiplier: 0"), "must be at least 1, -1"));
  CHECK(contains(entry_error("shuffle_over_epochs_multiplier: 1.5"), "must be an integer"));
  CHECK(contains(entry_error("subflavors: [1]"), "subflavors must be a mapping"));
  CHECK(contains(entry_error("split_part: [1]"), "split_part must be a string"));
  CHECK(
      contains(entry_error("subset: {range: [1]}"), "must have two bounds, [start, end], found 1"));
  CHECK(contains(entry_error("subset: {range: [20%, 30]}"), "mixes a percentage"));
  CHECK(contains(entry_error("subset: {}"), "splits.train.blend[0].subset has no 'range'"));
  CHECK(contains(entry_error("aux: {x: {path: a, fs_path: b}}"), "either path or fs_path"));
  CHECK(contains(entry_error("aux: {x: {}}"), "splits.train.blend[0].aux.x has no 'path'"));
  CHECK(contains(error_text_v2("splits: {train: {blend: [{path: ''}]}}"), "must not be empty"));
  CHECK(contains(error_text_v2("splits: {train: {blend: [{weight: 1}]}}"),
                 "splits.train.blend[0] has no 'path'"));
  CHECK(contains(error_text_v2("splits: {train: {blend: [], subset: {range: [0%, 1%]}}}"),
                 "splits.train.blend must name at least one dataset"));
  CHECK(contains(error_text_v2("splits: {train: {blend: [{path: a}], subset: {range: [0, 9]}}}"),
                 "splits.train.subset must be percentages"));
  CHECK(contains(error_text_v2("splits: {train: 7}"), "splits.train must be a mapping"));
  CHECK(contains(error_text_v2("splits: {t: {path: a}, t: {path: b}}"), "splits.t occurs twice"));
  CHECK(contains(error_text_v2("a: 1\n--- \nb: 2"), "expected one YAML document, found more"));
  CHECK(contains(error_text("--- \n--- {splits: {}}"), "expected one YAML document, found more"));
  CHECK(parse_metadataset("# c\n%YAML 1.2\n\n---\nsplits: {train: {datasets: [{path: a}]}}\n",
                          "m.yaml")
            .splits.size() == 1);
  CHECK(contains(error_text(",splits: {}"), "the document must be a mapping"));
  CHECK(contains(error_text_v2("splits: [{"), "not valid YAML"));
  CHECK(contains(error_text_v2(""), "the document has no 'splits'"));
  CHECK(contains(error_text("[]"), "the document must be a mapping"));
}

TEST_CASE("invalid joins are errors with their place", "[io][formats][metadataset]") {
  const auto join_error = [](const std::string& columns) {
    return error_text_v2("splits: {t: {join: " + columns + ", joiner: {__class__: C}}}");
  };
  CHECK(contains(join_error("[{path: a, nonmatch: skip}, {path: b}]"),
                 "splits.t.join must not set nonmatch for its first dataset"));
  CHECK(contains(join_error("[{path: a}, {path: b, nonmatch: maybe}]"),
                 "splits.t.join[1].nonmatch must be error, skip or none, found 'maybe'"));
  CHECK(contains(join_error("[]"), "splits.t.join must name at least one dataset"));
  CHECK(contains(join_error("{x: {path: a, weight: 1}}"), "splits.t.join.x.weight is not a known"));
  CHECK(contains(error_text_v2("splits: {t: {join: [{path: a}]}}"), "splits.t has no 'joiner'"));
}

TEST_CASE("URLs are not supported", "[io][formats][metadataset]") {
  for (const char* entry :
       {"path: msc://p/a", "path: a, aux: {x: s3://b}", "path: a, aux: {x: filesystem+msc://b}"}) {
    CAPTURE(entry);
    const auto [code, message] =
        error_of([&] { parse_v2(std::string("splits: {t: {") + entry + "}}"); });
    CHECK(code == ErrorCode::kUnsupported);
    CHECK(contains(message, "in /data/mds.yaml: only local files are supported"));
  }
}

TEST_CASE("aliases are followed, but not without limit", "[io][formats][metadataset]") {
  const Metadataset file = parse_v2("splits:\n  train: &t {blend: [{path: a}]}\n  val: *t\n");
  CHECK(path_of(file.split("val").entries[0]).path == "/data/a");
  std::string bomb = "splits:\n  train:\n    path: a\n    subflavors:\n      l0: &l0 [1]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string last = "*l" + std::to_string(i - 1);
    bomb += "      l" + std::to_string(i) + ": &l" + std::to_string(i) + " [" + last + "," + last +
            "]\n";
  }
  CHECK(contains(error_text_v2(bomb), "splits.train.subflavors is nested deeper than 64 levels"));
}

TEST_CASE("an unknown split is an error that lists the known ones", "[io][formats][metadataset]") {
  const Metadataset file = parse_v2("splits: {train: {path: a}, val: {path: b}}");
  const auto [code, message] = error_of([&] { file.split("test"); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "no split 'test'; known: train, val [path: /data/mds.yaml]"));
}

TEST_CASE("a metadataset is read from its file", "[io][formats][metadataset]") {
  const TempDir folder;
  const std::string path = folder.write("m.yaml", "splits: {train: {datasets: [{path: a}]}}");
  const Metadataset file = energon::read_metadataset(path);
  CHECK(file.path == path);
  CHECK(path_of(file.split("train").entries[0]).path == folder.file("a"));
  CHECK(error_of([&] { energon::read_metadataset(folder.file("absent.yaml")); }).first ==
        ErrorCode::kNotFound);
}
