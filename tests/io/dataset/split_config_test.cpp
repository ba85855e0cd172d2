#include "io/dataset/split_config.h"

#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::parse_split_json;
using energon::parse_split_yaml;
using energon::select_shards;
using energon::split_by_pattern;
using energon::split_by_ratio;
using energon::SplitConfig;
using energon::SplitPattern;
using energon::SplitRatio;
using energon::to_split_yaml;
using energon::testing::contains;
using energon::testing::error_of;
using Names = std::vector<std::string>;

namespace {

Names numbered(int count) {
  Names names;
  for (int i = 0; i < count; ++i) {
    names.push_back(fmt::format("shard-{:03d}.tar", i));
  }
  return names;
}

std::size_t shard_count(const SplitConfig& config, const std::string& part) {
  return select_shards(config, part, "").names.size();
}

}  // namespace

TEST_CASE("a split file is written as PyYAML writes it", "[io][formats][split]") {
  const SplitConfig config{
      .parts = {{"train", {"shards/shard-{00..09}.tar"}}, {"val", {"{a,b}.tar"}}, {"test", {}}}};
  CHECK(to_split_yaml(config) ==
        "split_parts:\n"
        "  train:\n"
        "  - shards/shard-{00..09}.tar\n"
        "  val:\n"
        "  - '{a,b}.tar'\n"
        "  test: []\n"
        "exclude: []\n");
}

TEST_CASE("a split file survives a round trip", "[io][formats][split]") {
  const SplitConfig config{
      .parts = {{"yes", {"it's a.tar", "a: b",        "# c",          "- d",
                         "1",          "1e5",         "null",         "\"q\"",
                         "t\tab",      "line\nbreak", "back\\{slash", "",
                         " ",          "*x",          "&x",           "!x",
                         "%x",         "@x",          "[x]",          "\xC3\xA4.tar",
                         "~",          "a #b",        "a:",           "?x",
                         "|",          ">",           "007.tgz"}},
                {"2", {}}},
      .exclude = {"a/b/c", "{x"}};
  CHECK(parse_split_yaml(to_split_yaml(config), "x") == config);
}

TEST_CASE("both parsers read the same from a split file", "[io][formats][split]") {
  const std::string written =
      "split_parts:\n  train:\n  - a-{0..9}.tar\n  - d/b.tar\n  val: []\n  test:\n  - c.tar\n"
      "exclude:\n- c.tar\n- d/b.tar/7\n";
  REQUIRE(energon::parse_as_written(written));
  CHECK(energon::parse_as_written(written) == parse_split_yaml(written, "x"));
  CHECK(energon::parse_as_written("split_parts:\n  train:\n  - a.tar\nexclude: []\n"));
  CHECK_FALSE(energon::parse_as_written(""));
  CHECK_FALSE(energon::parse_as_written("split_parts:\n  a:\n  - x\n  a: []\nexclude: []\n"));
  // Mutated texts, some of which only the full YAML parser can read.
  std::mt19937 random(7);  // NOLINT: deterministic
  const std::string characters = "\n -:[]{}'\"#,ax01~&*!|>%@";
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = written;
    for (unsigned changes = random() % 3 + 1; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      const char character = characters[random() % characters.size()];
      switch (random() % 3) {
        case 0:
          text[at] = character;
          break;
        case 1:
          text.insert(at, 1, character);
          break;
        default:
          text.erase(at, random() % 4 + 1);
      }
    }
    if (const auto fast = energon::parse_as_written(text)) {
      ++read;
      CAPTURE(text);
      REQUIRE(parse_split_yaml(text, "x") == *fast);
    }
  }
  CHECK(read > 1000);
}

TEST_CASE("characters that JSON escapes as pairs are read as one", "[io][formats][split]") {
  const auto shard = [](const std::string& text) {
    return parse_split_json("{\"split_parts\": {\"train\": [\"" + text + "\"]}}", "s.json")
        .parts.at(0)
        .patterns.at(0);
  };
  CHECK(shard(R"(\ud83d\ude00-\u00e9.tar)") == "\xF0\x9F\x98\x80-\xC3\xA9.tar");
  CHECK(shard(R"(\uD800\uDC00\uDBFF\uDFFF)") == "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
  CHECK(shard(R"(a\\ud83d.tar)") == "a\\ud83d.tar");  // an escaped backslash
  for (const char* half :
       {R"(\ud83d.tar)", R"(\ude00.tar)", R"(\ud83d\u0041)", R"(\ud83d\ud83d)"}) {
    CAPTURE(half);
    CHECK(contains(error_of([&] { shard(half); }).second, "half of a character"));
  }
}

TEST_CASE("yaml and json are equivalent", "[io][formats][split]") {
  const SplitConfig expected{.parts = {{"train", {"a.tar"}}, {"val", {}}}, .exclude = {"a.tar/1"}};
  CHECK(parse_split_yaml("split_parts:\n  train: [a.tar]\n  val: []\nexclude:\n- a.tar/1\n", "x") ==
        expected);
  CHECK(parse_split_json(
            R"({"split_parts": {"train": ["a.tar"], "val": []}, "exclude": ["a.tar/1"]})", "x") ==
        expected);
  CHECK(parse_split_yaml("split_parts: {t: [a]}\nexclude:\n", "x").exclude.empty());
}

TEST_CASE("of two exclude lists the last one counts", "[io][formats][split]") {
  const auto exclude = [](const std::string& lists) {
    return parse_split_yaml("split_parts: {t: [a, b]}\n" + lists, "x").exclude;
  };
  CHECK(exclude("exclude: []\nexclude: [a, b/3]\n") == Names{"a", "b/3"});
  CHECK(exclude("exclude: [a]\nexclude: []\n").empty());
  CHECK(contains(error_of([&] { parse_split_yaml("split_parts: {t: [a], t: [b]}", "x"); }).second,
                 "occurs twice"));
}

TEST_CASE("aliases cannot expand a split file far beyond its size", "[io][formats][split]") {
  CHECK(parse_split_yaml("split_parts: {a: &x [a.tar, b.tar], b: *x}\n", "x").parts[1].patterns ==
        Names{"a.tar", "b.tar"});
  // A list of long names, and many parts that alias that list.
  std::string text = "split_parts:\n  p: &x\n";
  for (int i = 0; i < 300; ++i) {
    text += "  - " + std::string(100, 'a') + std::to_string(i) + ".tar\n";
  }
  for (int i = 0; i < 3000; ++i) {
    text += "  p" + std::to_string(i) + ": *x\n";
  }
  const auto [code, message] = error_of([&] { parse_split_yaml(text, "/d/split.yaml"); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "repeated by aliases"));
  CHECK(contains(message, "/d/split.yaml"));
}

TEST_CASE("a large split file without aliases is read", "[io][formats][split]") {
  std::string text = "split_parts:\n  p:\n";
  for (int i = 0; i < 200'000; ++i) {
    text += "  - " + std::to_string(i) + "\n";
  }
  CHECK(parse_split_yaml(text, "x").parts[0].patterns.size() == 200'000);
}

TEST_CASE("a bad split file is an error with the place", "[io][formats][split]") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"split_parts: [a]", "split_parts"},
      {"split_parts:\n  train: a.tar", "split_parts.train"},
      {"split_parts:\n  train:\n  - {a: b}", "split_parts.train[0]"},
      {"split_parts: {}\nmore: 1", "more is not a known key"},
      {"splits: {}", "splits belongs in a metadataset; a split file has split_parts"},
      {"exclude: []", "has no split_parts"},
      {"split_parts: {}\nsplit_parts: {}", "twice"},
      {"split_parts: {a: [], a: []}", "twice"},
      {"split_parts: {}\nexclude: x", "exclude"},
      {"- a", "mapping"},
      {"", "mapping"},
      {"split_parts: {", "not valid YAML"},
      {std::string(20'000, '['), "not valid YAML"},
  };
  for (const auto& [text, place] : table) {
    CAPTURE(text.substr(0, 100));
    const auto [code, message] =
        error_of([&, t = text] { parse_split_yaml(t, "/data/split.yaml"); });
    CHECK(code == ErrorCode::kInvalidArgument);
    CHECK(contains(message, place));
    CHECK(contains(message, "/data/split.yaml"));
  }
  CHECK(error_of([] { parse_split_json("split_parts: {}", "x"); }).first ==
        ErrorCode::kInvalidArgument);
}

TEST_CASE("the split file is found by name, by default in two forms", "[io][formats][split]") {
  const energon::testing::TempDir folder;
  CHECK(error_of([&] { energon::read_split_config(folder.path()); }).first == ErrorCode::kNotFound);
  folder.write("split.json", R"({"split_parts": {"json": []}})");
  CHECK(energon::read_split_config(folder.path()).parts[0].name == "json");
  folder.write("split.yaml", "split_parts: {yaml: []}");
  CHECK(energon::read_split_config(folder.path()).parts[0].name == "yaml");
  folder.write("other.yaml", "split_parts: {other: []}");
  CHECK(energon::read_split_config(folder.path(), "other.yaml").parts[0].name == "other");
  CHECK(error_of([&] { energon::read_split_config(folder.path(), "split.txt"); }).first ==
        ErrorCode::kInvalidArgument);
}

TEST_CASE("ratios divide by number of shards and lose none", "[io][formats][split]") {
  const std::vector<SplitRatio> ratios = {{"train", 8}, {"val", 1}, {"test", 1}};
  const SplitConfig config = split_by_ratio(numbered(25), ratios);
  CHECK(config.parts[0].patterns == Names{"shard-{000..019}.tar"});
  CHECK(config.parts[1].patterns == Names{"shard-{020..021}.tar"});
  CHECK(config.parts[2].patterns == Names{"shard-{022..024}.tar"});
  for (int parts = 1; parts <= 30; ++parts) {
    CAPTURE(parts);
    std::vector<SplitRatio> equal;
    for (int i = 0; i < parts; ++i) {
      equal.push_back({fmt::format("p{}", i), 1});
    }
    std::size_t total = 0;
    for (const auto& part : split_by_ratio(numbered(30), equal).parts) {
      total +=
          part.patterns.empty() ? 0 : shard_count(split_by_ratio(numbered(30), equal), part.name);
    }
    CHECK(total == 30);
  }
}

TEST_CASE("a part without weight gets no shard", "[io][formats][split]") {
  const SplitConfig config =
      split_by_ratio(numbered(3), std::vector<SplitRatio>{{"train", 1}, {"val", 0}});
  CHECK(config.parts[0].patterns == Names{"shard-{000..002}.tar"});
  CHECK(config.parts[1].patterns.empty());
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity()}) {
    CAPTURE(weight);
    CHECK(error_of([&] {
            split_by_ratio(numbered(3), std::vector<SplitRatio>{{"train", weight}});
          }).first == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("patterns are expressions matched from the start", "[io][formats][split]") {
  const Names shards = {"train/a-0.tar", "train/a-1.tar", "val/a-0.tar", "x/train/a-0.tar"};
  const SplitConfig config = split_by_pattern(
      shards,
      std::vector<SplitPattern>{{"train", "train/"}, {"both", R"({train,val}/.*-\d\.tar)"}});
  CHECK(config.parts[0].patterns == Names{"train/a-{0..1}.tar"});
  CHECK(config.parts[1].patterns == Names{"train/a-{0..1}.tar", "val/a-0.tar"});
}

TEST_CASE("the error about a pattern without a match explains that it is not a glob",
          "[io][formats][split]") {
  const auto [code, message] = error_of([] {
    split_by_pattern(numbered(3), std::vector<SplitPattern>{{"train", "*.tar"}});
  });
  CHECK(code == ErrorCode::kInvalidArgument);
  const auto [code2, message2] = error_of([] {
    split_by_pattern(numbered(3), std::vector<SplitPattern>{{"train", "shard*.tar"}});
  });
  CHECK(code2 == ErrorCode::kInvalidArgument);
  CHECK(contains(message2, "not a glob"));
  CHECK(contains(message2, "shard-000.tar"));
}

TEST_CASE("selecting a part expands names and drops excluded shards", "[io][formats][split]") {
  const SplitConfig config{.parts = {{"train", {"parts/data-{0..2}.tar"}}, {"val", {"v.tar"}}},
                           .exclude = {"parts/data-0.tar", "parts/data-1.tar/00003{5..6}"}};
  const auto selected = select_shards(config, "train", "");
  CHECK(selected.names == Names{"parts/data-1.tar", "parts/data-2.tar"});
  CHECK(selected.exclude_entries == Names{"parts/data-1.tar/000035", "parts/data-1.tar/000036"});
  CHECK(contains(error_of([] { select_shards({}, "train", "/d/split.yaml"); }).second,
                 "the split file has no split parts, so it has no 'train'"));
  const auto [code, message] = error_of([&] { select_shards(config, "test", "/d/split.yaml"); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "known: train, val"));
  const SplitConfig nothing{.parts = {{"train", {"a.tar"}}}, .exclude = {"a.tar"}};
  CHECK(contains(error_of([&] { select_shards(nothing, "train", ""); }).second, "not excluded"));
}
