// Media metadata is looked up by name, like files.

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/prepare/media_update.h"
#include "io/store/file_store.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::FolderFileStore;
using energon::FolderMediaUpdate;
using energon::JsonlFileStore;
using energon::MediaMetadata;
using energon::MediaUpdate;
using energon::WebdatasetFileStore;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

TEST_CASE("a store returns the media metadata of a part", "[io][formats][store][media]") {
  const TempDir folder;
  folder.write("d/a.tar", make_shard(0, 3));
  prepare_folder(folder.file("d"));
  {
    WebdatasetFileStore store(folder.file("d"));
    const auto [code, message] = error_of([&] { store.get_media_metadata("000001.bin"); });
    CHECK(code == ErrorCode::kUnsupported);
    CHECK(contains(message, "energon prepare-media"));
  }
  const MediaMetadata image{.width = 3, .height = 4, .format = "PNG", .mode = "L"};
  MediaUpdate update(folder.file("d"));
  update.add("000001.bin", image);
  update.commit();
  WebdatasetFileStore store(folder.file("d"));
  CHECK(store.get_media_metadata("000001.bin") == image);
  CHECK_FALSE(store.get_media_metadata("000002.bin"));
  for (const std::string name : {"000009.bin", "000001", ""}) {
    CAPTURE(name);
    const auto [code, message] = error_of([&] { store.get_media_metadata(name); });
    CHECK(code == ErrorCode::kNotFound);
    CHECK(contains(message, "the dataset has no such part"));
    CHECK(contains(message, "[path: " + store.path()));
  }
}

TEST_CASE("a folder store returns the media metadata of a file", "[io][formats][store][media]") {
  const TempDir folder;
  folder.write("d/sub/a.png", "x");
  folder.write("d/b.txt", "x");
  folder.write("d/gone.png", "x");
  const std::string path = folder.file("d");
  const MediaMetadata image{.width = 3, .height = 4, .format = "PNG", .mode = "L"};
  FolderFileStore store(path);
  {
    const auto [code, message] = error_of([&] { store.get_media_metadata("sub/a.png"); });
    CHECK(code == ErrorCode::kUnsupported);
    CHECK(
        contains(message, "run: energon prepare-media " + path + " --media-metadata-by-extension"));
    CHECK(contains(message, "[path: " + path + ", sample: sub/a.png]"));
  }
  FolderMediaUpdate update(path);
  update.add("sub/a.png", image);
  update.add("gone.png", image);
  update.commit();
  CHECK(store.get_media_metadata("sub/a.png") == image);
  CHECK(store.get_media_metadata("./sub/../sub/a.png") == image);
  CHECK_FALSE(store.get_media_metadata("b.txt"));
  std::filesystem::remove(folder.file("d/gone.png"));
  CHECK(store.get_media_metadata("gone.png") == image);  // as prepared
  const auto code_of = [&](const std::string& name) {
    return error_of([&] { store.get_media_metadata(name); }).first;
  };
  CHECK(code_of("absent.png") == ErrorCode::kNotFound);
  CHECK(code_of("../d/sub/a.png") == ErrorCode::kInvalidArgument);
  CHECK(code_of(path + "/sub/a.png") == ErrorCode::kInvalidArgument);
  CHECK(code_of("") == ErrorCode::kInvalidArgument);
  CHECK(code_of(std::string("a\0b", 3)) == ErrorCode::kInvalidArgument);
}

TEST_CASE("a folder store reports a damaged index", "[io][formats][store][media]") {
  const TempDir folder;
  folder.write("a.png", "x");
  folder.write(".nv-meta/index.sqlite", std::string(5000, 'x'));
  FolderFileStore store(folder.path());
  CHECK(error_of([&] { store.get_media_metadata("a.png"); }).first == ErrorCode::kCorruptData);
  CHECK(store.get("a.png").bytes.text() == "x");
  folder.write(".nv-meta/index.sqlite", "");
  CHECK(error_of([&] { store.get_media_metadata("a.png"); }).first == ErrorCode::kUnsupported);
}

TEST_CASE("a folder store opens its media metadata in each process",
          "[io][formats][store][media][fork]") {
  const TempDir folder;
  FolderMediaUpdate update(folder.path());
  update.add("a.png", {.width = 3});
  update.commit();
  FolderFileStore store(folder.path());
  REQUIRE(store.get_media_metadata("a.png"));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool is_right = false;
    error_of([&] { is_right = store.get_media_metadata("a.png")->width == 3; });
    ::_exit(is_right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("lines of a JSONL file have no media metadata", "[io][formats][store][media]") {
  const TempDir folder;
  JsonlFileStore store(folder.write("x.jsonl", "{}"));
  CHECK(error_of([&] { store.get_media_metadata("0"); }).first == ErrorCode::kUnsupported);
}
