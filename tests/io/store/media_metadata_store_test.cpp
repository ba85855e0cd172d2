// Media metadata is looked up by name, like files.

#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/prepare/media_update.h"
#include "io/store/file_store.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::FolderFileStore;
using energon::MediaMetadata;
using energon::MediaUpdate;
using energon::WebdatasetFileStore;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

TEST_CASE("a store gives the media metadata of a part", "[io][formats][store][media]") {
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
    const auto [code, message] = error_of([&] { store.get_media_metadata(name); });
    CHECK(code == ErrorCode::kNotFound);
    CHECK(contains(message, "the dataset has no such part"));
    CHECK(contains(message, "[path: " + store.path()));
  }
}

TEST_CASE("other stores have no media metadata", "[io][formats][store][media]") {
  const TempDir folder;
  FolderFileStore store(folder.path());
  CHECK(error_of([&] { store.get_media_metadata("a.png"); }).first == ErrorCode::kUnsupported);
}
