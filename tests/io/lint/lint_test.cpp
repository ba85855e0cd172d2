#include "io/lint/lint.h"

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <sqlite3.h>

#include "io/error.h"
#include "io/index/media_table.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::Checksums;
using energon::lint;
using energon::LintReport;
using energon::testing::change_byte;
using energon::testing::contains;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

namespace {

constexpr std::size_t kSampleBytes = 5 * 512;  // of make_shard()

void prepare_example(const TempDir& folder, Checksums checksums) {
  folder.write("a.tar", make_shard(0, 4));
  folder.write("b.tar", make_shard(4, 3));
  prepare_folder(folder.path(), {.checksums = checksums});
}

}  // namespace

TEST_CASE("lint finds no problem in a good dataset", "[io][formats][lint]") {
  const TempDir folder;
  prepare_example(folder, Checksums::kWrite);
  const LintReport report = lint(folder.path());
  CHECK(report.ok());
  CHECK(report.shards == 2);
  CHECK(report.samples == 7);
  CHECK(report.samples_checksummed == 7);
  CHECK(report.warnings.empty());
}

TEST_CASE("lint names the sample whose bytes changed", "[io][formats][lint]") {
  const TempDir folder;
  prepare_example(folder, Checksums::kWrite);
  change_byte(folder.file("a.tar"), 2 * kSampleBytes + 512);
  const LintReport report = lint(folder.path());
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].shard == "a.tar");
  CHECK(report.problems[0].key == "000002");
  CHECK(report.problems[0].byte_offset == 2 * kSampleBytes);
}

TEST_CASE("lint reports every problem of every shard", "[io][formats][lint]") {
  const TempDir folder;
  prepare_example(folder, Checksums::kNone);
  change_byte(folder.file("a.tar"), kSampleBytes + 3);  // a header
  change_byte(folder.file("b.tar.idx"), 9, 2);          // sample 1 starts one block later
  folder.write(".nv-meta/split.yaml", "split_parts: {train: [a.tar, c.tar]}");
  const LintReport report = lint(folder.path());
  REQUIRE(report.problems.size() == 3);
  CHECK(report.problems[0].shard == "a.tar");
  CHECK(report.problems[0].byte_offset == kSampleBytes);
  CHECK(report.problems[1].shard == "b.tar");
  CHECK(report.problems[1].key == "000005");
  CHECK(report.problems[2].shard == "c.tar");
}

TEST_CASE("lint checks the split file that dataset.yaml names", "[io][formats][lint]") {
  const TempDir folder;
  prepare_example(folder, Checksums::kNone);
  folder.write(".nv-meta/split.yaml", "split_parts: {train: [c.tar]}");
  folder.write(".nv-meta/other.yaml", "split_parts: {train: [a.tar]}");
  folder.write(".nv-meta/dataset.yaml", "split_config: other.yaml");
  CHECK(lint(folder.path()).ok());
  folder.write(".nv-meta/other.yaml", "split_parts: {train: [a.tar, d.tar]}");
  const LintReport report = lint(folder.path());
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].shard == "d.tar");
  folder.write(".nv-meta/dataset.yaml", "split_konfig: other.yaml");
  CHECK(contains(lint(folder.path()).problems.at(0).message, "not a known key"));
}

TEST_CASE("lint reports missing files and wrong counts", "[io][formats][lint]") {
  const TempDir folder;
  prepare_example(folder, Checksums::kNone);
  std::filesystem::remove(folder.file("a.tar.idx"));
  folder.write(".nv-meta/.info.json", R"({"shard_counts": {"a.tar": 4, "b.tar": 8, "c.tar": 1}})");
  const LintReport report = lint(folder.path());
  REQUIRE(report.problems.size() == 3);
  CHECK(contains(report.problems[0].message, "index is missing"));
  CHECK(contains(report.problems[1].message, "counts 8 samples, but the tar has 3"));
  CHECK(report.problems[2].shard == "c.tar");
}

TEST_CASE("lint compares index.sqlite with the shards", "[io][formats][lint]") {
  const TempDir folder;
  prepare_example(folder, Checksums::kNone);
  folder.write("b.tar", make_shard(14, 3));
  const LintReport report = lint(folder.path());
  REQUIRE_FALSE(report.ok());
  CHECK(contains(report.problems[0].message, "index.sqlite"));
  folder.write(".nv-meta/index.sqlite", "rubbish");
  CHECK_FALSE(lint(folder.path()).ok());
}

TEST_CASE("lint compares every row of index.sqlite with the shards", "[io][formats][lint]") {
  const TempDir folder;
  prepare_example(folder, Checksums::kNone);
  const std::string index = folder.file(".nv-meta/index.sqlite");
  energon::MediaTableWriter writer(index);
  writer.add("000001.bin", "image", R"({"width":1,"height":1,"format":"PNG","mode":"L"})");
  writer.finish();
  REQUIRE(lint(folder.path()).ok());
  const auto [sql, message] = GENERATE(table<std::string, std::string>(
      {{"UPDATE samples SET byte_offset = -byte_offset", "expected a count or offset"},
       {"UPDATE samples SET byte_offset = byte_offset + 512",
        "has the sample at a different place"},
       {"UPDATE samples SET byte_size = byte_size + 512 WHERE sample_key = '000001'",
        "has the sample at a different place"},
       {"UPDATE sample_parts SET content_byte_offset = -content_byte_offset",
        "expected a count or offset"},
       {"UPDATE sample_parts SET content_byte_offset = content_byte_offset + 512",
        "lacks the part 'txt' at its place"},
       {"UPDATE sample_parts SET content_byte_size = 1 WHERE sample_index = 2",
        "lacks the part 'txt' at its place"},
       {"UPDATE sample_parts SET part_name = 'x' WHERE part_name = 'bin'",
        "lacks the part 'bin' at its place"},
       {"DELETE FROM sample_parts WHERE sample_index = 3", "lacks the part 'txt' at its place"},
       {"INSERT INTO sample_parts (tar_file_id, sample_index, part_name, content_byte_offset, "
        "content_byte_size) VALUES (0, 3, 'x', 99999, 1)",
        "has 1 part that the tar lacks"},
       {"INSERT INTO sample_parts (tar_file_id, sample_index, part_name, content_byte_offset, "
        "content_byte_size) VALUES (0, 77, 'x', 99999, 1)",
        "has 1 part of samples that it lacks"},
       {"UPDATE media_metadata SET metadata_json = 'no JSON'", "JSON"}}));
  CAPTURE(sql);
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(index.c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  const LintReport report = lint(folder.path());
  REQUIRE_FALSE(report.ok());
  CHECK(report.problems[0].shard == "a.tar");
  CHECK_THAT(report.problems[0].message, Catch::Contains(message));
}

TEST_CASE("plain tars are linted without an index", "[io][formats][lint]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 4));
  folder.write("b.tar", make_shard(4, 3).substr(0, 3000));
  const LintReport report = lint(folder.path());
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].shard == "b.tar");
  CHECK(report.samples == 4);
  CHECK(lint(folder.file("a.tar")).ok());
  CHECK(energon::testing::files_below(folder.path()) == std::vector<std::string>{"a.tar", "b.tar"});
}

TEST_CASE("after a broken header, lint continues with the index", "[io][formats][lint]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 20));
  prepare_folder(folder.path(), {.checksums = Checksums::kWrite});
  change_byte(folder.file("a.tar"), 3 * kSampleBytes + 3);    // a header
  change_byte(folder.file("a.tar"), 7 * kSampleBytes + 512);  // the content
  change_byte(folder.file("a.tar"), 12 * kSampleBytes + 3);   // a header
  std::vector<std::uint64_t> places;
  for (const auto& problem : lint(folder.path()).problems) {
    places.push_back(problem.byte_offset.value_or(0));
  }
  CHECK(places ==
        std::vector<std::uint64_t>{7 * kSampleBytes, 12 * kSampleBytes, 3 * kSampleBytes});
}

TEST_CASE("lint warns about keys that two plain tars share", "[io][formats][lint]") {
  const TempDir folder;
  folder.write("a.tar", make_shard(0, 5));
  folder.write("b.tar", make_shard(3, 5));
  const auto report = lint(folder.path());
  CHECK(report.ok());
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings[0] == "b.tar: 2 of its keys are also in a.tar; prepare rejects this");
}
