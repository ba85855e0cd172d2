// A prepare that reuses the unchanged shards of an earlier one.

#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sqlite3.h>

#include "io/dataset/dataset_folder.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index.h"
#include "io/lint/lint.h"
#include "io/prepare/prepare.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;

using energon::Checksums;
using energon::ErrorCode;
using energon::Existing;
using energon::PrepareReport;
using energon::read_file;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

namespace {

constexpr int kSamples = 200;  // more than the headers in the record

void write_shards(const TempDir& folder, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    folder.write(fmt::format("s-{}.tar", i), make_shard(i * kSamples, kSamples));
  }
}

std::map<std::string, std::string> updated_contents_of(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const std::string& name : files_below(folder)) {
    contents[name] = read_file(folder + "/" + name);
  }
  return contents;
}

// Key, shard, index and place of each sample.
std::vector<std::string> rows_of(const TempDir& folder) {
  std::vector<std::string> rows;
  const energon::SampleIndex index(folder.file(".nv-meta/index.sqlite"));
  index.for_each_sample([&](std::string_view key, const energon::SampleLocation& at) {
    rows.push_back(fmt::format("{} {} {} {} {}", key, at.tar_file_id, at.sample_index,
                               at.bytes.offset, at.bytes.size));
    return true;
  });
  return rows;
}

void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  CHECK(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

// Overwrites the header of a sample without a digest in the record; size and time are kept.
void damage_secretly(const TempDir& folder, const std::string& name) {
  const std::string path = folder.file(name);
  const auto time = fs::last_write_time(path);
  std::string tar = read_file(path);
  tar[1 * 2560 + 1] ^= 1;  // sample 1: of 200 samples, the record has every third
  folder.write(name, tar);
  fs::last_write_time(path, time);
}

}  // namespace

TEST_CASE("an update has the result of a full prepare, and does not scan unchanged shards",
          "[io][formats][prepare][update]") {
  const Checksums checksums = GENERATE(Checksums::kNone, Checksums::kWrite);
  const TempDir folder;
  write_shards(folder, 0, 3);
  prepare_folder(folder.path(), {.checksums = checksums});
  write_shards(folder, 3, 2);

  const TempDir full;
  write_shards(full, 0, 5);
  const PrepareReport all = prepare_folder(full.path(), {.checksums = checksums});

  damage_secretly(folder, "s-1.tar");
  CHECK(error_of([&] {
          prepare_folder(folder.path(), {.existing = Existing::kOverwrite});
        }).first == ErrorCode::kCorruptData);
  const std::string uuid = read_file(folder.file(".nv-meta/index.uuid"));
  const PrepareReport report =
      prepare_folder(folder.path(), {.existing = Existing::kUpdate, .checksums = checksums});
  CHECK(report.warnings.empty());
  CHECK(report.kept_shards == 3);
  CHECK(report.shards == all.shards);
  CHECK(report.samples == all.samples);
  CHECK(report.parts == all.parts);
  CHECK(report.part_names == all.part_names);
  CHECK(read_file(folder.file(".nv-meta/index.uuid")) != uuid);

  damage_secretly(folder, "s-1.tar");  // restores it
  CHECK(rows_of(folder) == rows_of(full));
  CHECK(energon::lint(folder.path()).ok());
  auto updated = updated_contents_of(folder.path());
  auto expected = updated_contents_of(full.path());
  for (const char* name :
       {".nv-meta/index.uuid", ".nv-meta/shard_record.bin", ".nv-meta/index.sqlite"}) {
    CAPTURE(name);
    CHECK(updated.erase(name) == 1);
    expected.erase(name);
  }
  CHECK(updated == expected);
  CHECK(energon::open_split(folder.path()).shards.size() == 5);
}

TEST_CASE("updates can follow one another, even without new shards",
          "[io][formats][prepare][update]") {
  const TempDir folder;
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    write_shards(folder, i, 1);
    CHECK(prepare_folder(folder.path(), {.existing = Existing::kUpdate}).kept_shards == i);
  }
  const PrepareReport report = prepare_folder(folder.path(), {.existing = Existing::kUpdate});
  CHECK(report.kept_shards == 4);
  CHECK(report.samples == 4 * kSamples);
  CHECK(energon::lint(folder.path()).ok());
}

TEST_CASE("shards that cannot be reused are scanned, with the reason",
          "[io][formats][prepare][update]") {
  struct Case {
    std::string reason;
    std::function<void(const TempDir&)> change;
    energon::PrepareOptions options = {};
  };
  const auto touch = [](const TempDir& folder, const std::string& name) {
    fs::last_write_time(folder.file(name),
                        fs::file_time_type::clock::now() + std::chrono::hours(1));
  };
  const std::vector<Case> cases = {
      {"'s-1.tar' has a different size or modification time",
       [&](const TempDir& folder) { touch(folder, "s-1.tar"); }},
      {"'s-1.tar' has a different size or modification time",
       [](const TempDir& folder) { folder.write("s-1.tar", make_shard(900, 250)); }},
      {"'s-1.tar' has different headers",
       [](const TempDir& folder) {
         const auto time = fs::last_write_time(folder.file("s-1.tar"));
         folder.write("s-1.tar", make_shard(5 * kSamples, kSamples));
         fs::last_write_time(folder.file("s-1.tar"), time);
       }},
      {"'s-0.tar' has a different index",
       [](const TempDir& folder) {
         std::string index = read_file(folder.file("s-0.tar.idx"));
         index.erase(8, 8);
         folder.write("s-0.tar.idx", index);
       }},
      {"'s-0.tar' cannot be compared",
       [](const TempDir& folder) { fs::remove(folder.file("s-0.tar.idx")); }},
      {"'s-0.tar' is gone", [](const TempDir& folder) { fs::remove(folder.file("s-0.tar")); }},
      {"'s-0.tar' is gone, or is preceded by a new shard",
       [](const TempDir& folder) { folder.write("a.tar", make_shard(7 * kSamples, 3)); }},
      {"no record",
       [](const TempDir& folder) { fs::remove(folder.file(".nv-meta/shard_record.bin")); }},
      {"cannot be used",
       [](const TempDir& folder) { folder.write(".nv-meta/shard_record.bin", "damaged"); }},
      {"cannot be used",
       [](const TempDir& folder) { fs::remove(folder.file(".nv-meta/index.sqlite")); }},
      {"cannot be used",
       [](const TempDir& folder) {
         run_sql(folder.file(".nv-meta/index.sqlite"), "CREATE TABLE media_metadata (x)");
       }},
      {"different numbers of samples",
       [](const TempDir& folder) {
         run_sql(folder.file(".nv-meta/index.sqlite"),
                 "DELETE FROM samples WHERE rowid = (SELECT max(rowid) FROM samples)");
       }},
      {"wrote no checksums", [](const TempDir&) {}, {.checksums = Checksums::kWrite}},
      {"strict tars", [](const TempDir&) {}, {.strictness = energon::ScanStrictness::kStrict}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.reason);
    const TempDir folder;
    write_shards(folder, 0, 2);
    prepare_folder(folder.path());
    one.change(folder);
    write_shards(folder, 3, 1);
    energon::PrepareOptions options = one.options;
    options.existing = Existing::kUpdate;
    const PrepareReport report = prepare_folder(folder.path(), options);
    CHECK(report.kept_shards == 0);
    REQUIRE(!report.warnings.empty());  // the first one; an index without a shard is a second one
    CHECK(contains(report.warnings[0], "scanning all shards"));
    CHECK(contains(report.warnings[0], one.reason));
    CHECK(energon::lint(folder.path()).ok());
  }
}

TEST_CASE("an update without an earlier prepare is a prepare", "[io][formats][prepare][update]") {
  const TempDir folder;
  write_shards(folder, 0, 2);
  const PrepareReport report = prepare_folder(folder.path(), {.existing = Existing::kUpdate});
  CHECK(report.warnings.empty());
  CHECK(report.kept_shards == 0);
  CHECK(report.samples == 2 * kSamples);
}

TEST_CASE("an update refuses a truncated shard and an existing key",
          "[io][formats][prepare][update]") {
  const TempDir folder;
  write_shards(folder, 0, 2);
  prepare_folder(folder.path());
  folder.write("s-2.tar", make_shard(kSamples + 7, 2));
  auto before = updated_contents_of(folder.path());
  const auto repeated =
      error_of([&] { prepare_folder(folder.path(), {.existing = Existing::kUpdate}); });
  CHECK(repeated.first == ErrorCode::kCorruptData);
  CHECK(contains(repeated.second, "2 problems"));
  CHECK(contains(repeated.second, "in s-1.tar (sample 7) and in s-2.tar (sample 0)"));
  CHECK(updated_contents_of(folder.path()) == before);

  fs::remove(folder.file("s-2.tar"));
  folder.write("s-1.tar", make_shard(kSamples, 3));
  before = updated_contents_of(folder.path());
  const auto cut =
      error_of([&] { prepare_folder(folder.path(), {.existing = Existing::kUpdate}); });
  CHECK(cut.first == ErrorCode::kCorruptData);
  CHECK(contains(cut.second, "--force-overwrite"));
  CHECK(updated_contents_of(folder.path()) == before);
}

TEST_CASE("a damaged index.sqlite makes an update fail or is rewritten intact, never a crash",
          "[io][formats][prepare][update]") {
  const TempDir folder;
  write_shards(folder, 0, 2);
  prepare_folder(folder.path());
  const std::string good = read_file(folder.file(".nv-meta/index.sqlite"));
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    std::string bytes = good;
    for (std::uint32_t change = 0; change <= random() % 3; ++change) {
      // Mostly where pages have their headers and pointers.
      const std::size_t page = random() % (bytes.size() / 4096) * 4096;
      bytes[page + random() % (random() % 2 == 0 ? 16 : 4096)] = static_cast<char>(random());
    }
    folder.write(".nv-meta/index.sqlite", bytes);
    try {
      prepare_folder(folder.path(), {.existing = Existing::kUpdate});
      energon::SampleIndex(folder.file(".nv-meta/index.sqlite")).find_sample("000000");
    } catch (const energon::Error& error) {
      CHECK(error.code() == ErrorCode::kCorruptData);
      ++refused;
    }
  }
  CHECK(refused > 20);
}
