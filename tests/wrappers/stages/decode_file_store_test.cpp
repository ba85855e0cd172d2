#include "wrappers/stages/decode_file_store.h"

#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/temp_dir.h"

using energon::DecodedFile;
using energon::DecodeFileStore;
using energon::Error;
using energon::ErrorCode;
using energon::FolderFileStore;
using energon::testing::TempDir;

TEST_CASE("files of a store are decoded by their names", "[wrappers][media]") {
  const TempDir folder;
  folder.write("a/7.txt", "hello");
  folder.write("a/7.cls", "12");
  folder.write("a/7.bin", "raw");
  DecodeFileStore store(std::make_unique<FolderFileStore>(folder.path()));
  const DecodedFile text = store.get("a/7.txt");
  CHECK(std::get<std::string>(text.value.base()) == "hello");
  CHECK(text.file.source_path == folder.file("a/7.txt"));
  CHECK(text.file.range.size == 5);
  CHECK(std::get<std::int64_t>(store.get("a/7.cls").value.base()) == 12);
  CHECK(std::get<energon::SharedBytes>(store.get("a/7.bin").value.base()).text() == "raw");
  CHECK(store.path() == folder.path());
}

TEST_CASE("a file that cannot be decoded is named with its store", "[wrappers][media]") {
  const TempDir folder;
  folder.write("a.png", "no image");
  DecodeFileStore store(std::make_unique<FolderFileStore>(folder.path()));
  try {
    store.get("a.png");
    FAIL("it was decoded");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kCorruptData);
    CHECK_THAT(error.what(),
               Catch::Contains("[path: " + folder.path()) && Catch::Contains("sample: a.png"));
  }
  CHECK_THROWS_AS(store.get("b.png"), Error);
  CHECK_THROWS_AS(store.get_media_metadata("a.png"), Error);
  CHECK_THROWS_AS(DecodeFileStore(nullptr), Error);
  CHECK_THROWS_AS(DecodeFileStore(std::make_unique<FolderFileStore>("x"), {.image = "odd"}), Error);
}
