// Media metadata of a folder of files is published all or nothing.

#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/dataset/dataset_kind.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/media_table.h"
#include "io/index/sqlite_handle.h"
#include "io/prepare/media_update.h"
#include "tests/io/actors.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;

using energon::DatasetKind;
using energon::detect_dataset_kind;
using energon::ErrorCode;
using energon::FolderMediaUpdate;
using energon::MediaIndex;
using energon::MediaMetadata;
using energon::read_file;
using energon::testing::ChildResult;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::run_actors;
using energon::testing::TempDir;
using Names = std::vector<std::string>;

namespace {

const std::string kIndexName = ".nv-meta/index.sqlite";
const std::string kAbandoned = ".nv-meta/index.sqlite.tmp.0123456789abcdef";

void store_row(const TempDir& folder, const std::string& name, std::int64_t width) {
  FolderMediaUpdate update(folder.path());
  update.add(name, {.width = width});
  update.add_filter("GLOB", "*");
  update.commit();
}

std::optional<std::int64_t> width_of(const TempDir& folder, const std::string& name) {
  const auto row = MediaIndex(folder.file(kIndexName)).find(name);
  return row ? row->width : std::nullopt;
}

Names query_index(const TempDir& folder, const std::string& sql) {
  const std::string path = folder.file(kIndexName);
  const energon::SqlitePtr db = energon::open_sqlite(path, SQLITE_OPEN_READWRITE, path);
  energon::Statement statement(db.get(), sql, path);
  Names rows;
  while (statement.step()) {
    rows.emplace_back(statement.text(0));
  }
  return rows;
}

unsigned mode_at(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777U;
}

}  // namespace

TEST_CASE("rows of a folder appear when they are committed, without a trace before",
          "[io][formats][media]") {
  const TempDir folder;
  folder.write("sub/a.jpg", "");
  {
    FolderMediaUpdate update(folder.path());
    CHECK_FALSE(update.index_path());
    update.add("sub/a.jpg", {.width = 7});
    CHECK(detect_dataset_kind(folder.path()) == DatasetKind::kFolder);
  }
  CHECK_FALSE(fs::exists(folder.file(".nv-meta")));
  store_row(folder, "sub/a.jpg", 7);
  CHECK(files_below(folder.path()) == Names{kIndexName, "sub/a.jpg"});
  CHECK(width_of(folder, "sub/a.jpg") == 7);
  CHECK(detect_dataset_kind(folder.path()) == DatasetKind::kFolder);
}

TEST_CASE("rows of a folder are added to the existing ones", "[io][formats][media]") {
  const TempDir folder;
  store_row(folder, "a.jpg", 1);
  store_row(folder, "b.jpg", 2);
  store_row(folder, "a.jpg", 3);
  query_index(folder, "UPDATE media_filters SET created_at_utc = '2001-02-03 04:05:06'");
  FolderMediaUpdate update(folder.path());
  CHECK(update.index_path() == folder.file(kIndexName));
  update.add("c.jpg", {.width = 4});
  update.add_filter("EXTENSION", "");
  CHECK_FALSE(width_of(folder, "c.jpg"));
  update.commit();
  CHECK(width_of(folder, "a.jpg") == 3);
  CHECK(width_of(folder, "b.jpg") == 2);
  CHECK(width_of(folder, "c.jpg") == 4);
  CHECK(query_index(folder, "SELECT strategy || patterns FROM media_filters ORDER BY filter_id") ==
        Names{"GLOB*", "EXTENSION"});
  CHECK(query_index(folder, "SELECT strategy FROM media_filters WHERE created_at_utc LIKE '2001%'")
            .size() == 1);
  CHECK(query_index(folder, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") ==
        Names{"media_filters", "media_metadata", "sqlite_sequence"});
}

TEST_CASE("the index of a folder has the permissions of the folder", "[io][formats][media]") {
  const TempDir folder;
  const std::string path = folder.file("d");
  fs::create_directory(path);
  REQUIRE(::chmod(path.c_str(), 0770) == 0);
  FolderMediaUpdate update(path);
  update.add("a.jpg", {.width = 1});
  update.commit();
  CHECK(mode_at(path + "/.nv-meta") == 0770);
  CHECK(mode_at(path + "/" + kIndexName) == 0660);
}

TEST_CASE("of two concurrent runs over a folder, one is refused", "[io][formats][media]") {
  const TempDir folder;
  store_row(folder, "a.jpg", 1);
  FolderMediaUpdate first(folder.path());
  const auto [code, message] = error_of([&] { FolderMediaUpdate second(folder.path()); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "another process is preparing this folder"));
  // Where locks do not work, the first to finish wins.
  first.add("a.jpg", {.width = 2});
  folder.write(kIndexName, read_file(folder.file(kIndexName)) + "x");
  const std::string theirs = read_file(folder.file(kIndexName));
  CHECK(contains(error_of([&] { first.commit(); }).second, "stored media metadata of the folder"));
  CHECK(read_file(folder.file(kIndexName)) == theirs);
}

TEST_CASE("a damaged index of a folder is not replaced silently", "[io][formats][media]") {
  const TempDir folder;
  const std::string damaged(5000, 'x');
  folder.write(kIndexName, damaged);
  const auto [code, message] = error_of([&] { FolderMediaUpdate update(folder.path()); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "remove this file"));
  CHECK(contains(message, kIndexName));
  CHECK(read_file(folder.file(kIndexName)) == damaged);
  CHECK(files_below(folder.path()) == Names{kIndexName});
}

TEST_CASE("leftovers of a killed run in a folder are removed after an hour",
          "[io][formats][media]") {
  const TempDir folder;
  const std::string path = folder.write(kAbandoned, "");
  store_row(folder, "a.jpg", 1);
  CHECK(fs::exists(path));
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  store_row(folder, "a.jpg", 2);
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a run over a folder that is killed leaves the old rows or the new ones",
          "[io][formats][media][fork]") {
  const bool has_rows = GENERATE(false, true);
  CAPTURE(has_rows);
  constexpr int kMostSteps = 200;
  bool is_done = false;
  int old_sets = 0;
  int new_sets = 0;
  for (int step = 1; !is_done; ++step) {
    CAPTURE(step);
    REQUIRE(step < kMostSteps);
    const TempDir folder;
    if (has_rows) {
      store_row(folder, "a.jpg", 7);
    }
    const ChildResult result =
        run_actors({{"folder_media", folder.path(), "a.jpg"}},
                   {"ENERGON_TEST_KILL_IN=.nv-meta", fmt::format("ENERGON_TEST_KILL_AT={}", step)})
            .front();
    is_done = result.exited;
    REQUIRE((is_done ? result.exit_code == 0 : result.signal == SIGKILL));
    CHECK(detect_dataset_kind(folder.path()) == DatasetKind::kFolder);
    const bool has_index = fs::exists(folder.file(kIndexName));
    const auto width = has_index ? width_of(folder, "a.jpg") : std::nullopt;
    CHECK((width == 1000 || (has_rows ? width == 7 : !has_index)));
    ++(width == 1000 ? new_sets : old_sets);
    store_row(folder, "b.jpg", 9);
    CHECK(width_of(folder, "a.jpg") == width);
    CHECK(width_of(folder, "b.jpg") == 9);
  }
  CHECK(old_sets >= 2);
  CHECK(new_sets >= 1);
}
