#include "io/dataset/dataset_info.h"

#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::DatasetInfo;
using energon::ErrorCode;
using energon::parse_info_json;
using energon::parse_info_yaml;
using energon::to_info_json;
using energon::testing::contains;
using energon::testing::error_of;

namespace {

const DatasetInfo kExample{.energon_version = "7.4.0",
                           .shards = {{"parts/data-1.tar", 25}, {"parts/data-0.tar", 30}}};

// As Python's json.dump(…, indent=2) writes it.
constexpr const char* kExampleText = R"({
  "energon_version": "7.4.0",
  "shard_counts": {
    "parts/data-1.tar": 25,
    "parts/data-0.tar": 30
  }
})";

}  // namespace

TEST_CASE("dataset info is written byte for byte as Energon writes it", "[io][formats][info]") {
  CHECK(to_info_json(kExample) == kExampleText);
  CHECK(to_info_json({.energon_version = "1"}) ==
        "{\n  \"energon_version\": \"1\",\n  \"shard_counts\": {}\n}");
  CHECK(
      contains(to_info_json({.shards = {{"\xC3\xA4\"\\\n.tar", 1}}}), R"("\u00e4\"\\\n.tar": 1)"));
}

TEST_CASE("dataset info keeps the order of the shards", "[io][formats][info]") {
  CHECK(parse_info_json(kExampleText, "x") == kExample);
  CHECK(parse_info_yaml("energon_version: 7.4.0\nshard_counts:\n  parts/data-1.tar: 25\n"
                        "  parts/data-0.tar: 30\n",
                        "x") == kExample);
  CHECK(parse_info_json(R"({"shard_counts": {"a.tar": 1}})", "x").energon_version == std::nullopt);
}

TEST_CASE("malformed dataset info is refused with the path", "[io][formats][info]") {
  for (const std::string text : {"",
                                 "[]",
                                 "7",
                                 "{}",
                                 R"({"shard_counts": []})",
                                 R"({"shard_counts": {"a": "1"}})",
                                 R"({"shard_counts": {"a": -1}})",
                                 R"({"shard_counts": {"a": 1.0}})",
                                 R"({"shard_counts": {"a": 99999999999999999999}})",
                                 R"({"shard_counts": {"a": 18446744073709551615}})",
                                 R"({"shard_counts": {"a": {}}})",
                                 R"({"shard_counts": {"a": 1, "a": 2}})",
                                 R"({"shard_counts": {}, "more": 1})",
                                 R"({"shard_counts": {}, "shard_counts": {}})",
                                 R"({"energon_version": "7.4.0"})",
                                 R"({"energon_version": 7, "shard_counts": {}})",
                                 R"({"shard_counts": {}} x)",
                                 R"({"shard_counts": {"a": true}})",
                                 R"({"shard_counts": {"a": null}})",
                                 "{\"shard"}) {
    CAPTURE(text);
    const auto [code, message] = error_of([&] { parse_info_json(text, "the-path"); });
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, "the-path"));
  }
  for (const std::string text :
       {"", "- a", "shard_counts: 1", "shard_counts: {a: x}", "shard_counts: {a: 1}\nmore: 1",
        "a: [", "shard_counts: {a: -1}"}) {
    CAPTURE(text);
    CHECK(error_of([&] { parse_info_yaml(text, "p"); }).first == ErrorCode::kCorruptData);
  }
}

TEST_CASE("the json form comes before the yaml form", "[io][formats][info]") {
  const energon::testing::TempDir folder;
  CHECK(energon::read_dataset_info(folder.path()) == std::nullopt);
  folder.write(".info.yaml", "shard_counts: {old.tar: 1}\n");
  CHECK(energon::read_dataset_info(folder.path())->shards[0].name == "old.tar");
  folder.write(".info.json", kExampleText);
  CHECK(energon::read_dataset_info(folder.path()) == kExample);
}

TEST_CASE("a shard name that is not UTF-8 cannot be written", "[io][formats][info]") {
  CHECK(error_of([] {
          to_info_json({.shards = {{"\xFF.tar", 1}}});
        }).first == ErrorCode::kInvalidArgument);
}

TEST_CASE("impossible counts, whose sum would overflow, are refused", "[io][formats][info]") {
  CHECK_THROWS_WITH(
      energon::parse_info_json(R"({"shard_counts": {"a.tar": 9223372036854775807}})", "info"),
      Catch::Contains("shard_counts of 'a.tar' is 9223372036854775807, expected at most"));
  CHECK(energon::parse_info_json(R"({"shard_counts": {"a.tar": 34359738368}})", "info")
            .shards.front()
            .sample_count == 34359738368);
}
