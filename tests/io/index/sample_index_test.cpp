#include "io/index/sample_index.h"

#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sqlite3.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index_writer.h"
#include "tests/io/index/index_rows.h"
#include "tests/io/shards.h"
#include "tests/support/child_runner.h"
#include "tests/support/temp_dir.h"

using energon::ByteRange;
using energon::ErrorCode;
using energon::PartLocation;
using energon::SampleIndex;
using energon::SampleLocation;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::TempDir;
using energon::testing::write_index;

namespace {

// Three samples in two shards; the last one's key has folders and dots.
std::string write_example(const TempDir& folder) {
  const std::string path = folder.file("index.sqlite");
  write_index(path, {{{"000000", 0, 2048, {{"jpg", 512, 100}, {"seg.png", 1536, 7}}},
                      {"000001", 2048, 1024, {{"", 2560, 0}}}},
                     {{"a.b/x", 512, 1024, {{"txt", 1024, 3}}}}});
  return path;
}

void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  CHECK(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

std::vector<std::string> query(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  std::vector<std::string> rows;
  const auto add = [](void* out, int count, char** values, char**) {
    std::string row;
    for (int i = 0; i < count; ++i) {
      row += fmt::format("{}{}", i == 0 ? "" : "|", values[i] == nullptr ? "NULL" : values[i]);
    }
    static_cast<std::vector<std::string>*>(out)->push_back(row);
    return 0;
  };
  CHECK(sqlite3_exec(db, sql.c_str(), add, &rows, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  return rows;
}

}  // namespace

TEST_CASE("the database has Energon's schema", "[io][formats][sample_index]") {
  const TempDir folder;
  const std::string path = write_example(folder);
  CHECK(query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY type, name") ==
        std::vector<std::string>{
            "index|idx_sample_parts_full|CREATE INDEX idx_sample_parts_full ON "
            "sample_parts(tar_file_id, sample_index, part_name, content_byte_offset, "
            "content_byte_size)",
            "index|idx_sample_parts_seq|CREATE INDEX idx_sample_parts_seq ON "
            "sample_parts(tar_file_id, sample_index, content_byte_offset)",
            "index|idx_samples_by_tar_and_idx|CREATE INDEX idx_samples_by_tar_and_idx ON "
            "samples(tar_file_id, sample_index)",
            "index|sqlite_autoindex_samples_1|NULL",
            "table|sample_parts|CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index "
            "INTEGER, part_name TEXT, content_byte_offset INTEGER, content_byte_size INTEGER)",
            "table|samples|CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT "
            "NULL UNIQUE, sample_index INTEGER NOT NULL, byte_offset INTEGER, byte_size INTEGER)"});
  CHECK(query(path, "PRAGMA user_version") == std::vector<std::string>{"0"});
  CHECK(query(path, "PRAGMA page_size") == std::vector<std::string>{"4096"});
  CHECK(query(path, "PRAGMA journal_mode") == std::vector<std::string>{"delete"});
  CHECK(query(path, "PRAGMA encoding") == std::vector<std::string>{"UTF-8"});
  CHECK(query(path, "SELECT * FROM samples")[1] == "0|000001|1|2048|1024");
  CHECK(query(path, "SELECT * FROM sample_parts")[1] == "0|0|seg.png|1536|7");
  CHECK(energon::testing::files_below(folder.path()) == std::vector<std::string>{"index.sqlite"});
}

TEST_CASE("samples and parts are found by name", "[io][formats][sample_index]") {
  const TempDir folder;
  const SampleIndex index(write_example(folder));
  CHECK(index.sample_count() == 3);
  CHECK(index.has_parts());
  CHECK(index.find_sample("000001") == SampleLocation{0, 1, {2048, 1024}});
  CHECK(index.find_sample("a.b/x") == SampleLocation{1, 0, {512, 1024}});
  CHECK_FALSE(index.find_sample("nobody"));
  CHECK(index.find_part("000000.seg.png") == PartLocation{0, 0, "seg.png", {1536, 7}});
  CHECK(index.find_part("a.b/x.txt") == PartLocation{1, 0, "txt", {1024, 3}});
  CHECK(index.find_part("000001.") == PartLocation{0, 1, "", {2560, 0}});
  CHECK_FALSE(index.find_part("000000.gif"));
  CHECK_FALSE(index.find_part("no-dot"));
  CHECK(index.parts_of("000000").size() == 2);
  CHECK(index.check().empty());
}

TEST_CASE("samples are listed in the order of the shards", "[io][formats][sample_index]") {
  const TempDir folder;
  const SampleIndex index(write_example(folder));
  std::vector<std::string> keys;
  index.for_each_sample([&](std::string_view key, const SampleLocation&) {
    keys.emplace_back(key);
    return keys.size() < 2;
  });
  CHECK(keys == std::vector<std::string>{"000000", "000001"});
}

TEST_CASE("a database without parts still finds samples", "[io][formats][sample_index]") {
  const TempDir folder;
  const std::string path = write_example(folder);
  run_sql(path, "DROP TABLE sample_parts");
  const SampleIndex index(path);
  CHECK_FALSE(index.has_parts());
  CHECK(index.find_sample("000000"));
  CHECK(error_of([&] { index.find_part("000000.jpg"); }).first == ErrorCode::kUnsupported);
}

TEST_CASE("a file that is not an index database is refused with the path",
          "[io][formats][sample_index]") {
  const TempDir folder;
  CHECK(error_of([&] { SampleIndex index(folder.file("absent")); }).first == ErrorCode::kNotFound);
  for (const std::string& content :
       {std::string("not a database at all, but long enough to be one"), std::string(8192, '\0')}) {
    CAPTURE(content);
    const std::string path = folder.write("bad", content);
    const auto [code, message] = error_of([&] { SampleIndex index(path); });
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, path));
  }
  const std::string path = write_example(folder);
  const std::string bytes = energon::read_file(path);
  folder.write("cut", bytes.substr(0, 6000));
  CHECK(error_of([&] { SampleIndex(folder.file("cut")).find_sample("000000"); }).first ==
        ErrorCode::kCorruptData);
}

TEST_CASE("views planted in place of tables are not read", "[io][formats][sample_index]") {
  const TempDir folder;
  const std::string path = folder.file("planted.sqlite");
  run_sql(path,
          "CREATE TABLE t (x); CREATE VIEW samples AS SELECT 0 AS tar_file_id, 'k' AS sample_key, "
          "0 AS sample_index, 0 AS byte_offset, 1 AS byte_size");
  CHECK(error_of([&] { SampleIndex index(path); }).first == ErrorCode::kCorruptData);
}

TEST_CASE("values that are not offsets are refused", "[io][formats][sample_index]") {
  const TempDir folder;
  for (const char* value : {"-1", "'x'", "NULL", "1.5", "x'00'"}) {
    CAPTURE(value);
    const TempDir inner;
    const std::string path = write_example(inner);
    run_sql(path, fmt::format("UPDATE samples SET byte_offset = {}", value));
    CHECK(error_of([&] { SampleIndex(path).find_sample("000000"); }).first ==
          ErrorCode::kCorruptData);
  }
}

TEST_CASE("a database with any byte changed returns an error or an answer, never crashes",
          "[io][formats][sample_index]") {
  const TempDir folder;
  const std::string good = energon::read_file(write_example(folder));
  int errors = 0;
  for (std::size_t offset = 0; offset < good.size(); offset += offset < 200 ? 1 : 61) {
    std::string bytes = good;
    bytes[offset] = static_cast<char>(bytes[offset] ^ 0xFF);
    const std::string path = folder.write("mutant.sqlite", bytes);
    try {
      const SampleIndex index(path);
      index.find_sample("000000");
      index.find_part("000000.jpg");
      index.check();
    } catch (const energon::Error&) {
      ++errors;
    }
  }
  CHECK(errors > 0);
}

TEST_CASE("special characters in the path have no meaning", "[io][formats][sample_index]") {
  const TempDir folder;
  folder.write("a?b#c%20 d/placeholder", "");
  const std::string path = folder.file("a?b#c%20 d/index.sqlite");
  write_index(path, {{{"k", 0, 512}}});
  CHECK(SampleIndex(path).find_sample("k"));
}

TEST_CASE("a connection from before a fork is refused in the child",
          "[io][formats][sample_index][fork]") {
  const TempDir folder;
  const SampleIndex index(write_example(folder));
  const auto result = energon::testing::run_in_child([&] {
    const bool refused =
        error_of([&] { index.find_sample("000000"); }).first == ErrorCode::kCancelled;
    const SampleIndex own(folder.file("index.sqlite"));
    return refused && own.find_sample("000000") ? 0 : 1;
  });
  CHECK(result.exit_code == 0);
  CHECK(index.find_sample("000000"));
}

TEST_CASE("a UUID has version 4 and is new each time", "[io][formats][sample_index]") {
  const std::string uuid = energon::make_uuid();
  REQUIRE(uuid.size() == 36);
  CHECK(uuid[14] == '4');
  CHECK(contains("89ab", uuid.substr(19, 1)));
  CHECK(uuid != energon::make_uuid());
}

TEST_CASE("the samples of one shard are visited in their order", "[io][formats][sample_index]") {
  const TempDir folder;
  const SampleIndex index(write_example(folder));
  std::vector<std::string> keys;
  const auto collect = [&](std::string_view key, const SampleLocation& location) {
    CHECK(location.sample_index == static_cast<std::int64_t>(keys.size()));
    keys.emplace_back(key);
    return true;
  };
  index.for_each_sample_of(0, collect);
  CHECK(keys == std::vector<std::string>{"000000", "000001"});
  keys.clear();
  index.for_each_sample_of(1, collect);
  CHECK(keys == std::vector<std::string>{"a.b/x"});
  index.for_each_sample_of(2, collect);
  CHECK(keys.size() == 1);
  keys.clear();
  index.for_each_sample_of(0, [&](std::string_view, const SampleLocation&) {
    keys.emplace_back();
    return false;
  });
  CHECK(keys.size() == 1);
}

TEST_CASE("duplicate keys are listed", "[io][formats][sample_index]") {
  const TempDir folder;
  const std::string path = write_example(folder);
  CHECK(SampleIndex(path).duplicate_keys(5).empty());
  run_sql(path,
          "CREATE TABLE copy AS SELECT * FROM samples; DROP TABLE samples;"
          "ALTER TABLE copy RENAME TO samples;"
          "INSERT INTO samples SELECT * FROM samples WHERE sample_key LIKE '0%'");
  CHECK(SampleIndex(path).duplicate_keys(5) == std::vector<std::string>{"000000", "000001"});
  CHECK(SampleIndex(path).duplicate_keys(1).size() == 1);
}
