// Media metadata of folders of files.

#include <filesystem>
#include <map>
#include <sstream>
#include <stop_token>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/prepare/media_update.h"
#include "media/metadata/add_media_metadata.h"
#include "tests/media/metadata/media_folder.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;

using energon::add_media_metadata;
using energon::ErrorCode;
using energon::glob_filter;
using energon::MediaFilter;
using energon::MediaMetadataProgress;
using energon::MediaMetadataReport;
using energon::MediaStrategy;
using energon::read_file;
using energon::testing::error_of;
using energon::testing::media_filters;
using energon::testing::media_rows;
using energon::testing::MediaFolder;
using energon::testing::TempDir;
using energon::testing::vector_files;

namespace {

using Rows = std::map<std::string, std::string>;
using FileNames = std::vector<std::string>;

const MediaFilter kAllExtensions = {};
const MediaFilter kAllHeaders = {.strategy = MediaStrategy::kHeader};

const std::string& media_file(const std::string& name) { return vector_files().at(name); }

void write_mixed(const TempDir& folder) {
  folder.write("a.jpg", media_file("jpeg-RGB.jpg"));
  folder.write("sub/b.PNG", media_file("png-P.png"));
  folder.write("sub/c.snd", media_file("sound.flac"));
  folder.write("sub/deep/d.mp3", media_file("sound.mp3"));
  folder.write("sub/bad.png", "not one");
  folder.write("sub.v1/readme", "text");
  folder.write("sub/.jpg", media_file("jpeg-RGB.jpg"));
}

FileNames stored_names(const TempDir& folder) {
  FileNames names;
  for (const auto& [name, row] : media_rows(folder.path())) {
    names.push_back(name);
  }
  return names;
}

}  // namespace

TEST_CASE("rows of a folder equal those of the same files in shards", "[media][metadata]") {
  const MediaFolder shards;
  shards.add(kAllExtensions);
  const TempDir folder;
  for (const auto& [name, content] : vector_files()) {
    folder.write("a/" + name, content);
  }
  const MediaMetadataReport report = add_media_metadata(folder.path(), kAllExtensions);
  Rows expected;
  for (const auto& [name, row] : media_rows(shards.path())) {
    expected["a/" + name] = row;
  }
  REQUIRE(expected.size() == 73);
  CHECK(media_rows(folder.path()) == expected);
  CHECK(media_filters(folder.path()) == "1\tEXTENSION\t\n");
  CHECK(report.images == 61);
  CHECK(report.av == 12);
  CHECK(report.unreadable == 3);
  CHECK(report.files == static_cast<std::int64_t>(vector_files().size()));
  CHECK(report.shards == 0);
}

TEST_CASE("filters choose files by name, content or pattern of the path", "[media][metadata]") {
  const TempDir folder;
  write_mixed(folder);
  const MediaMetadataReport report = add_media_metadata(folder.path(), kAllExtensions);
  CHECK(stored_names(folder) == FileNames{"a.jpg", "sub/b.PNG", "sub/deep/d.mp3"});
  CHECK(report.files == 7);
  CHECK(report.bytes > 0);
  REQUIRE(report.unreadable == 1);
  CHECK(report.unreadable_named.at(0).name == "sub/bad.png");
  CHECK(report.unreadable_named.at(0).shard.empty());
  CHECK_FALSE(report.unreadable_named.at(0).cause.empty());
  CHECK(report.part_names == FileNames{"", "PNG", "jpg", "mp3", "png", "snd"});
  add_media_metadata(folder.path(), glob_filter("sub/c.*"));
  CHECK(stored_names(folder) == FileNames{"a.jpg", "sub/b.PNG", "sub/c.snd", "sub/deep/d.mp3"});
  add_media_metadata(folder.path(), kAllHeaders);
  CHECK(stored_names(folder) ==
        FileNames{"a.jpg", "sub/.jpg", "sub/b.PNG", "sub/c.snd", "sub/deep/d.mp3"});
  CHECK(media_filters(folder.path()) == "1\tEXTENSION\t\n2\tGLOB\tsub/c.*\n3\tHEADER\t\n");
}

TEST_CASE("files that have metadata are kept on request", "[media][metadata]") {
  const TempDir folder;
  write_mixed(folder);
  CHECK(add_media_metadata(folder.path(), kAllExtensions, {.keep_existing = true}).kept == 0);
  {
    energon::FolderMediaUpdate update(folder.path());
    update.add("a.jpg", {.width = 77});
    update.commit();
  }
  folder.write("new.png", media_file("png-L.png"));
  const MediaMetadataReport report =
      add_media_metadata(folder.path(), kAllExtensions, {.keep_existing = true});
  CHECK(report.kept == 3);
  CHECK(report.images == 1);
  CHECK(media_rows(folder.path()).at("a.jpg") == "image\t{\"width\":77}");
  CHECK(add_media_metadata(folder.path(), kAllExtensions).images == 3);
  CHECK(media_rows(folder.path()).at("a.jpg") != "image\t{\"width\":77}");
}

TEST_CASE("rows of removed files stay, others are renewed", "[media][metadata]") {
  const TempDir folder;
  write_mixed(folder);
  add_media_metadata(folder.path(), kAllExtensions);
  const Rows before = media_rows(folder.path());
  fs::remove_all(folder.file("sub"));
  folder.write("a.jpg", media_file("png-L.png"));
  add_media_metadata(folder.path(), kAllExtensions);
  Rows after = media_rows(folder.path());
  CHECK(after.at("a.jpg") ==
        "image\t{\"width\":12,\"height\":8,\"format\":\"PNG\",\"mode\":\"L\"}");
  CHECK(after.at("a.jpg") != before.at("a.jpg"));
  after["a.jpg"] = before.at("a.jpg");
  CHECK(after == before);
}

TEST_CASE("a run that finds no media in a folder leaves no files", "[media][metadata]") {
  const TempDir folder;
  CHECK(add_media_metadata(folder.path(), kAllExtensions).files == 0);
  write_mixed(folder);
  const MediaMetadataReport report = add_media_metadata(folder.path(), glob_filter("*.webp"));
  CHECK(report.media() == 0);
  CHECK(report.files == 7);
  CHECK_FALSE(fs::exists(folder.file(".nv-meta")));
  add_media_metadata(folder.path(), kAllExtensions);
  const std::string before = read_file(folder.file(".nv-meta/index.sqlite"));
  CHECK(add_media_metadata(folder.path(), glob_filter("*.webp")).media() == 0);
  CHECK(read_file(folder.file(".nv-meta/index.sqlite")) == before);
}

TEST_CASE("links in a folder are followed, and broken ones are named", "[media][metadata]") {
  const TempDir folder;
  const TempDir other;
  other.write("x.png", media_file("png-L.png"));
  fs::create_directory_symlink(other.path(), folder.file("link"));
  fs::create_directory_symlink(folder.path(), other.file("back"));
  fs::create_symlink("nowhere", folder.file("gone.jpg"));
  const MediaMetadataReport report = add_media_metadata(folder.path(), kAllExtensions);
  CHECK(stored_names(folder) == FileNames{"link/x.png"});
  REQUIRE(report.unreadable == 1);
  CHECK(report.unreadable_named.at(0).name == "gone.jpg");
  CHECK_THAT(report.unreadable_named.at(0).cause, Catch::Contains("No such file"));
}

TEST_CASE("many files are read by threads, and progress counts them", "[media][metadata]") {
  constexpr int kFiles = 703;  // several for each job
  const TempDir folder;
  for (int i = 0; i < kFiles; ++i) {
    const bool is_damaged = i % 10 == 3;
    folder.write(fmt::format("{}/{:04}.png", i % 7, i),
                 is_damaged ? "damaged" : media_file("png-L.png"));
  }
  MediaMetadataProgress last;
  const auto run = [&](int threads) {
    return add_media_metadata(
        folder.path(), kAllExtensions,
        {.threads = threads,
         .progress = [&](const MediaMetadataProgress& state) { last = state; }});
  };
  const MediaMetadataReport report = run(4);
  CHECK(last.files_done == kFiles);
  CHECK(last.files_total == kFiles);
  CHECK(last.shards_total == 0);
  CHECK(last.media == 633);
  CHECK(report.files == kFiles);
  CHECK(report.images == 633);
  CHECK(report.unreadable == 70);
  REQUIRE(report.unreadable_named.size() == energon::kMostUnreadableNamed);
  CHECK(report.unreadable_named.at(1).name == "0/0133.png");
  const Rows rows = media_rows(folder.path());
  CHECK(rows.size() == 633);
  CHECK(run(1).unreadable_named == report.unreadable_named);
  CHECK(media_rows(folder.path()) == rows);
}

TEST_CASE("a run over a folder that is stopped changes nothing", "[media][metadata]") {
  const TempDir folder;
  write_mixed(folder);
  std::stop_source stop;
  const auto run = [&] {
    add_media_metadata(folder.path(), kAllExtensions,
                       {.threads = 1, .stop = stop.get_token(), .progress = [&](const auto&) {
                          stop.request_stop();
                        }});
  };
  CHECK_THAT(error_of(run, ErrorCode::kCancelled), Catch::Contains("was not changed"));
  CHECK_FALSE(fs::exists(folder.file(".nv-meta")));
  CHECK(add_media_metadata(folder.path(), kAllExtensions).images == 2);
}

TEST_CASE("tars that are not prepared are not a folder of files", "[media][metadata]") {
  const TempDir folder;
  write_mixed(folder);
  folder.write("shards/x.tar", "");
  const auto run = [&] { add_media_metadata(folder.path(), kAllExtensions); };
  CHECK_THAT(error_of(run, ErrorCode::kInvalidArgument),
             Catch::Contains("run: energon prepare " + folder.path()));
  CHECK_FALSE(fs::exists(folder.file(".nv-meta")));
}
