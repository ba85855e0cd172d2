// Samples found by their keys, in each kind of data.

#include "energon/read/find_sample.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/recipe_folder.h"
#include "tests/support/tar_builder.h"

using energon::ErrorCode;
using energon::find_sample;
using energon::find_samples;
using energon::FindOptions;
using energon::FoundSample;
using energon::testing::RecipeFolder;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::write_jsonl;
using energon::testing::write_prepared;
using Texts = std::vector<std::string>;

namespace {

std::string content(const FoundSample& found) {
  return std::string(found.sample.bytes(found.parts.at(0).name).text());
}

std::string shard_of(const FoundSample& found) {
  return source_of(found.sample, 0).shard->shard_name;
}

ErrorCode code_of(const std::string& path, const std::string& key, const FindOptions& options) {
  try {
    find_sample(path, key, options);
  } catch (const energon::Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

// Two shards without their ends, which share the key `d/2`.
void write_tars(const TempDir& folder) {
  folder.write("a.tar", TarBuilder().file("d/1.txt", "one").file("d/2.txt", "two").text());
  folder.write("b.tar", TarBuilder().file("d/2.txt", "too").file("d/3.txt", "three").text());
}

}  // namespace

TEST_CASE("a key of a prepared dataset is found in any split part or in one", "[energon][find]") {
  const TempDir folder;
  write_prepared(folder, {.name = "ds",
                          .counts = {3, 4},
                          .prefix = "n",
                          .split = "split_parts:\n  train: [parts/data-0.tar]\n"
                                   "  val: [parts/data-1.tar]\nexclude: []\n"});
  const std::string path = folder.file("ds");
  const FoundSample found = find_sample(path, "000004");
  CHECK(content(found) == "n4");
  CHECK(shard_of(found) == "parts/data-1.tar");
  CHECK(source_of(found.sample, 0).index_in_shard == 1);
  CHECK(found.bytes.offset == 1024);
  CHECK(found.parts.at(0).content == energon::ByteRange{1536, 2});
  CHECK(content(find_sample(path, "000004", {.split = "val"})) == "n4");
  CHECK(code_of(path, "000004", {.split = "train"}) == ErrorCode::kNotFound);
  CHECK(code_of(path, "000004", {.split = "test"}) == ErrorCode::kInvalidArgument);
  CHECK(code_of(path, "000007", {}) == ErrorCode::kNotFound);
}

TEST_CASE("a key of plain tars is found in the first shard that has it, or in all",
          "[energon][find]") {
  const TempDir folder;
  write_tars(folder);
  Texts warnings;
  const FindOptions options = {
      .warn = [&](const std::string& warning) { warnings.push_back(warning); }};
  CHECK(content(find_sample(folder.path(), "d/2", options)) == "two");
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[1], Catch::Contains("'b.tar'"));
  const auto all = find_samples(folder.path(), "d/2");
  REQUIRE(all.size() == 2);
  CHECK(content(all[0]) == "two");
  CHECK(content(all[1]) == "too");
  CHECK(code_of(folder.path(), "d/4", {}) == ErrorCode::kNotFound);
}

TEST_CASE("a search of plain tars can be cancelled", "[energon][find]") {
  const TempDir folder;
  write_tars(folder);
  int headers = 0;
  const FindOptions options = {.check_cancelled = [&] {
    if (++headers == 3) {
      throw energon::Error(ErrorCode::kCancelled, "enough");
    }
  }};
  CHECK(code_of(folder.path(), "d/3", options) == ErrorCode::kCancelled);
  CHECK(headers == 3);
}

TEST_CASE("a sample of a JSONL file is found by its number", "[energon][find]") {
  const TempDir folder;
  write_jsonl(folder, "x.jsonl", 3, 40);
  const FoundSample found = find_sample(folder.file("x.jsonl"), "1");
  CHECK(content(found) == R"({"n": 41})");
  CHECK(found.bytes == found.parts.at(0).content);
  for (const char* const key : {"3", "-1", "1x", ""}) {
    CAPTURE(key);
    CHECK(code_of(folder.file("x.jsonl"), key, {}) == ErrorCode::kNotFound);
  }
}

TEST_CASE("a key of a metadataset is found in the datasets of its splits", "[energon][find]") {
  const RecipeFolder folder({{.name = "one", .counts = {5}, .prefix = "a"},
                             {.name = "two", .counts = {5}, .first = 3, .prefix = "b"}});
  const std::string path = folder.write("m.yaml",
                                        "__module__: megatron.energon\n"
                                        "__class__: MetadatasetV2\n"
                                        "splits:\n  train: {path: one}\n"
                                        "  val: {path: two, split_part: train}\n");
  CHECK(content(find_sample(path, "000004")) == "a4");
  CHECK(content(find_sample(path, "000004", {.split = "val"})) == "b4");
  const auto all = find_samples(path, "000004");
  REQUIRE(all.size() == 2);
  CHECK(content(all[1]) == "b4");
  CHECK(find_samples(path, "000004", {.split = "train"}).size() == 1);
  CHECK(content(find_sample(path, "000007")) == "b7");
  CHECK(code_of(path, "000007", {.split = "train"}) == ErrorCode::kNotFound);
  CHECK(code_of(path, "000007", {.split = "test"}) == ErrorCode::kInvalidArgument);
}
