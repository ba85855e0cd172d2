// Media metadata is published all or nothing, and survives later prepares of the same shards.

#include "io/prepare/media_update.h"

#include <csignal>
#include <filesystem>
#include <map>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/prepare_commit.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index.h"
#include "io/lint/lint.h"
#include "tests/io/actors.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;

using energon::ErrorCode;
using energon::Existing;
using energon::MediaMetadata;
using energon::MediaUpdate;
using energon::PrepareReport;
using energon::read_file;
using energon::SampleIndex;
using energon::testing::ChildResult;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::run_actors;
using energon::testing::TempDir;

namespace {

constexpr int kMostUpdateSteps = 200;

void write_media_shards(const TempDir& folder) {
  folder.write("a.tar", make_shard(0, 3));
  folder.write("b.tar", make_shard(10, 4));
}

void add_row(const TempDir& folder, const std::string& name, std::int64_t width) {
  MediaUpdate update(folder.path());
  update.add(name, {.width = width});
  update.add_filter("GLOB", "*");
  update.commit();
}

std::map<std::string, std::string> media_contents_of(const TempDir& folder) {
  std::map<std::string, std::string> contents;
  for (const std::string& name : files_below(folder.path())) {
    if (!name.starts_with(".nv-meta.")) {
      contents[name] = read_file(folder.file(name));
    }
  }
  return contents;
}

std::optional<MediaMetadata> row_of(const TempDir& folder, const std::string& name) {
  const SampleIndex index(folder.file(".nv-meta/index.sqlite"));
  return index.has_media() ? index.media_metadata(name) : std::nullopt;
}

}  // namespace

TEST_CASE("rows of media metadata appear when they are committed, and nothing else changes",
          "[io][formats][media]") {
  const TempDir folder;
  write_media_shards(folder);
  prepare_folder(folder.path(), {.checksums = energon::Checksums::kWrite});
  const auto before = media_contents_of(folder);
  {
    MediaUpdate update(folder.path());
    CHECK(update.info().shards.size() == 2);
    update.add("000001.bin", {.width = 7});
    CHECK_FALSE(row_of(folder, "000001.bin"));
  }
  CHECK(media_contents_of(folder) == before);
  add_row(folder, "000001.bin", 7);
  CHECK(row_of(folder, "000001.bin")->width == 7);
  auto after = media_contents_of(folder);
  CHECK(after.at(".nv-meta/index.sqlite") != before.at(".nv-meta/index.sqlite"));
  after[".nv-meta/index.sqlite"] = before.at(".nv-meta/index.sqlite");
  CHECK(after == before);
  CHECK(energon::lint(folder.path()).ok());
  // The shard summary still matches the other files.
  const auto set =
      energon::open_split(folder.path(), {.check_shards = energon::CheckShards::kAtFirstRead});
  CHECK_FALSE(set.shards.at(0).is_checked);
}

TEST_CASE("media metadata needs a prepared dataset that no other process is preparing",
          "[io][formats][media]") {
  const TempDir folder;
  CHECK(error_of([&] { MediaUpdate update(folder.file("none")); }).first == ErrorCode::kNotFound);
  write_media_shards(folder);
  const auto [code, message] = error_of([&] { MediaUpdate update(folder.path()); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "energon prepare"));
  prepare_folder(folder.path());
  const MediaUpdate first(folder.path());
  CHECK(contains(error_of([&] { MediaUpdate second(folder.path()); }).second,
                 "another process is preparing"));
}

TEST_CASE("rows are not published for a dataset that was prepared meanwhile",
          "[io][formats][media]") {
  const TempDir folder;
  write_media_shards(folder);
  prepare_folder(folder.path());
  MediaUpdate update(folder.path());
  update.add("000001.bin", {.width = 7});
  folder.write(".nv-meta/index.uuid", "00000000-0000-4000-8000-000000000000");
  const auto before = media_contents_of(folder);
  CHECK(contains(error_of([&] { update.commit(); }).second, "prepared the dataset meanwhile"));
  CHECK(media_contents_of(folder) == before);
}

TEST_CASE("a dataset with .info.yaml gets .info.json", "[io][formats][media]") {
  const TempDir folder;
  write_media_shards(folder);
  prepare_folder(folder.path());
  fs::remove(folder.file(".nv-meta/.info.json"));
  folder.write(".nv-meta/.info.yaml",
               "energon_version: 7.0\nshard_counts:\n  a.tar: 3\n  b.tar: 4\n");
  add_row(folder, "000001.bin", 7);
  CHECK(row_of(folder, "000001.bin")->width == 7);
  CHECK(energon::open_split(folder.path()).shards.size() == 2);
}

TEST_CASE("an update keeps the rows of unchanged shards, and reports shards without rows",
          "[io][formats][media][update]") {
  const TempDir folder;
  write_media_shards(folder);
  prepare_folder(folder.path());
  add_row(folder, "000001.bin", 7);
  add_row(folder, "000001.bin", 8);  // may leave an unused page
  PrepareReport report = prepare_folder(folder.path(), {.existing = Existing::kUpdate});
  CHECK(report.kept_shards == 2);
  CHECK(report.warnings.empty());
  CHECK_FALSE(report.lacks_media);
  CHECK(row_of(folder, "000001.bin")->width == 8);
  folder.write("c.tar", make_shard(20, 2));
  report = prepare_folder(folder.path(), {.existing = Existing::kUpdate});
  CHECK(report.kept_shards == 2);
  CHECK(report.lacks_media);
  CHECK(row_of(folder, "000001.bin")->width == 8);
  CHECK(energon::lint(folder.path()).ok());
  report = prepare_folder(folder.path(), {.existing = Existing::kOverwrite});
  CHECK(report.lacks_media);
  CHECK_FALSE(row_of(folder, "000001.bin"));
  CHECK_FALSE(prepare_folder(folder.path(), {.existing = Existing::kOverwrite}).lacks_media);
}

TEST_CASE("storing media metadata that is killed leaves the old rows or the new ones",
          "[io][formats][media][fork]") {
  bool is_done = false;
  int new_sets = 0;
  for (int step = 1; !is_done; ++step) {
    CAPTURE(step);
    REQUIRE(step < kMostUpdateSteps);
    const TempDir folder;
    write_media_shards(folder);
    prepare_folder(folder.path());
    add_row(folder, "000001.bin", 7);
    const ChildResult result = run_actors({{"media", folder.path(), "000001.bin"}},
                                          {"ENERGON_TEST_KILL_IN=.nv-meta.commit",
                                           fmt::format("ENERGON_TEST_KILL_AT={}", step)})
                                   .front();
    is_done = result.exited;
    REQUIRE((is_done ? result.exit_code == 0 : result.signal == SIGKILL));
    CHECK(energon::open_split(folder.path()).shards.size() == 2);
    const auto width = row_of(folder, "000001.bin")->width;
    CHECK((width == 7 || width == 1000));
    new_sets += width == 1000 ? 1 : 0;
    CHECK(energon::lint(folder.path()).ok());
    CHECK_FALSE(fs::exists(energon::commit_folder(folder.path()) + "/journal"));
    add_row(folder, "000002.bin", 9);
    CHECK(row_of(folder, "000001.bin")->width == width);
  }
  CHECK(new_sets > 2);
}
