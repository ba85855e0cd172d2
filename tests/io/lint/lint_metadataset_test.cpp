// lint() of metadatasets and JSONL files.

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/jsonl_index.h"
#include "io/lint/lint.h"
#include "io/prepare/prepare_join.h"
#include "io/shared_folder.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::lint;
using energon::LintReport;
using energon::testing::change_byte;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

namespace {

// Datasets a, b and c of four samples each and three lines; a and b are joined, c is an aux.
struct Fixture {
  Fixture() {
    for (const char* name : {"a", "b", "c"}) {
      folder.write(fmt::format("{}/x.tar", name), make_shard(0, 4));
      prepare_folder(folder.file(name));
    }
    folder.write("rows.jsonl", "{}\n{}\n{}\n");
    folder.write("m.yaml", R"(
__class__: MetadatasetV2
splits:
  train:
    blend:
    - join: [{path: a}, {path: b}]
      joiner: {__class__: C}
    - {path: inner.yaml}
    - {path: a, aux: {media: c, files: "filesystem://c"}}
  val: {path: rows.jsonl}
)");
    folder.write("inner.yaml", "splits: {train: {datasets: [{path: rows.jsonl}]}}");
    energon::prepare_metadataset(folder.file("m.yaml"));
  }
  LintReport lint_it() const { return lint(folder.file("m.yaml")); }

  TempDir folder;
};

}  // namespace

TEST_CASE("lint reads every dataset of a metadataset once", "[io][formats][lint]") {
  const Fixture f;
  const LintReport report = f.lint_it();
  CHECK(report.ok());
  CHECK(report.datasets == 4);
  CHECK(report.shards == 4);
  CHECK(report.samples == 15);
}

TEST_CASE("lint reads a dataset with several split files once", "[io][formats][lint]") {
  const Fixture f;
  std::filesystem::resize_file(f.folder.file("c/x.tar"), 4 * 5 * 512);  // no end
  f.folder.write("c/.nv-meta/other.yaml", "split_parts: {train: [x.tar], val: [y.tar]}");
  f.folder.write("c/.nv-meta/dataset.yaml", "split_config: other.yaml");
  f.folder.write("n.yaml",
                 "__class__: MetadatasetV2\nsplits: {train: {path: c, aux: {media: c}}}\n");
  const LintReport report = lint(f.folder.file("n.yaml"));
  CHECK(report.datasets == 1);
  CHECK(report.samples == 4);
  REQUIRE(report.warnings.size() == 1);
  CHECK(contains(report.warnings[0], "no end-of-archive block"));
  REQUIRE(report.problems.size() == 2);  // the changed shard, and y.tar
  CHECK(contains(report.problems[1].message, "other.yaml: listed in split part 'val'"));
}

TEST_CASE("lint reports the dataset of a metadataset that has a problem", "[io][formats][lint]") {
  const Fixture f;
  for (const char* name : {"b", "c"}) {
    change_byte(f.folder.file(fmt::format("{}/x.tar", name)), 2 * 5 * 512 + 3);  // a header
  }
  f.folder.write("rows.jsonl", "{}\n[]\n{}\n");
  const LintReport report = f.lint_it();
  REQUIRE(report.problems.size() == 3);
  CHECK(report.problems[0].dataset == f.folder.file("b"));
  CHECK(report.problems[0].shard == "x.tar");
  CHECK(report.problems[0].byte_offset == 2 * 5 * 512);
  CHECK(report.problems[1].dataset == f.folder.file("rows.jsonl"));
  CHECK(report.problems[1].byte_offset == 3);
  CHECK(contains(report.problems[1].message, "line 2 is not a JSON object: it begins with '['"));
  CHECK(report.problems[2].dataset == f.folder.file("c"));
}

TEST_CASE("lint continues after a split that cannot be read", "[io][formats][lint]") {
  const Fixture f;
  f.folder.write("m.yaml", R"(
__class__: MetadatasetV2
splits:
  train: {blend: [{path: a}, {path: absent}]}
  val: {path: b, split_part: other}
  test: {path: m.yaml, split_part: test}
)");
  const LintReport report = f.lint_it();
  CHECK(report.datasets == 1);  // b
  REQUIRE(report.problems.size() == 3);
  CHECK(report.problems[0].dataset == f.folder.file("m.yaml"));
  CHECK(contains(report.problems[0].message, "split 'train', which was not read"));
  CHECK(contains(report.problems[0].message, "absent"));
  CHECK(contains(report.problems[1].message, "in a circle"));
  CHECK(report.problems[2].dataset == f.folder.file("b"));
  CHECK(contains(report.problems[2].message, "unknown split part 'other'"));
  f.folder.write("m.yaml", "splits: [");
  CHECK(error_of([&] { f.lint_it(); }).first == ErrorCode::kInvalidArgument);
}

TEST_CASE("lint looks up every place of a join index", "[io][formats][lint]") {
  const Fixture f;
  std::string index;
  for (const std::string& name : files_below(f.folder.path())) {
    index = contains(name, "m.yaml.cache/") ? f.folder.file(name) : index;
  }
  REQUIRE(!index.empty());
  const auto size = std::filesystem::file_size(index);
  change_byte(index, size - 7);  // the size of the last place
  const LintReport report = f.lint_it();
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].dataset == f.folder.file("m.yaml"));
  CHECK(contains(report.problems[0].message, "join: row 3 "));
  std::filesystem::remove(index);
  CHECK(contains(f.lint_it().problems.at(0).message, "the join is not prepared"));
}

TEST_CASE("lint parses every line of a JSONL file", "[io][formats][lint]") {
  const TempDir folder;
  const std::string path = folder.write(
      "x.jsonl", "\n{\"a\": 1}\n\n  {\"b\": nul}\r\n{\"c\": \"\xff\"}\n{\"d\": 1e999}\n{}");
  const LintReport report = lint(path);
  CHECK(report.shards == 1);
  CHECK(report.samples == 2);
  REQUIRE(report.problems.size() == 3);
  for (const auto& problem : report.problems) {
    CAPTURE(problem.message);
    CHECK(problem.shard == "x.jsonl");
    CHECK_FALSE(contains(problem.message, "json.exception"));
  }
  CHECK(contains(report.problems[0].message, "line 4 is not valid JSON: syntax error"));
  CHECK(report.problems[0].byte_offset == 1 + 9 + 1 + 2 + 9);  // the brace after "nul"
  CHECK(contains(report.problems[1].message, "line 5 is not valid JSON: "));
  CHECK(contains(report.problems[2].message, "line 6 cannot be read: number overflow"));

  CHECK(contains(lint(folder.write("empty.jsonl", "\n \n")).problems.at(0).message, "no samples"));
  CHECK(error_of([&] { lint(folder.file("absent.jsonl")); }).first == ErrorCode::kNotFound);
  // A line of several blocks.
  CHECK(lint(folder.write("long.jsonl", "{\"a\": \"" + std::string(3 << 20, 'x') + "\"}\n{}"))
            .samples == 2);
}

TEST_CASE("lint compares the index of a JSONL file", "[io][formats][lint]") {
  const TempDir folder;
  const std::string path = folder.write("x.jsonl", "\n{}\n\n{}\n  {}\n\n");
  const auto source = energon::FileSource(path).identity();
  energon::write_jsonl_index(energon::FileSource(path), path + ".idx");
  CHECK(lint(path).ok());
  // An index with a different time is not used, so only one with the file's time is checked for
  // damage.
  const auto damage = [&](std::int64_t byte) {
    change_byte(path + ".idx", byte);
    CHECK(energon::give_time_of(path + ".idx", source));
  };
  damage(8);  // sample 1 starts a byte later
  const LintReport moved = lint(path);
  REQUIRE(moved.problems.size() == 1);
  CHECK(contains(moved.problems[0].message, "different offsets from sample 1 on"));
  CHECK(moved.problems[0].byte_offset == 5);
  damage(3 * 8);  // the end
  CHECK(contains(lint(path).problems.at(0).message, "x.jsonl.idx"));
}

TEST_CASE("lint reports a JSONL file that is shorter than its index", "[io][formats][lint]") {
  const TempDir folder;
  const std::string path = folder.write("x.jsonl", "{}\n{}\n");
  energon::write_jsonl_index(energon::FileSource(path), path + ".idx");
  folder.write("x.jsonl", "{}\n");
  const LintReport report = lint(path);
  REQUIRE(report.problems.size() == 1);
  CHECK(contains(report.problems[0].message, "truncated after it was indexed"));
}
