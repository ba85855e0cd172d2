#include "io/dataset/dataset_kind.h"

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::DatasetKind;
using energon::detect_dataset_kind;
using energon::ErrorCode;
using energon::is_metadataset;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

TEST_CASE("files are distinguished by their names", "[io][formats][kind]") {
  const TempDir folder;
  CHECK(detect_dataset_kind(folder.write("a.jsonl", "{}")) == DatasetKind::kJsonl);
  CHECK(detect_dataset_kind(folder.write("a.yaml", "")) == DatasetKind::kMetadataset);
  for (const char* name : {"a.tar", "a.tgz", "a.tar.gz", "a.tar.zst"}) {
    CAPTURE(name);
    CHECK(detect_dataset_kind(folder.write(name, "")) == DatasetKind::kPlainTars);
  }
  CHECK(detect_dataset_kind(folder.file("b-{0..9}.tar")) == DatasetKind::kPlainTars);
  const auto [code, message] =
      error_of([&] { detect_dataset_kind(folder.write("a.yml", "splits: {}")); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "must be named .yaml"));
  CHECK(error_of([&] { detect_dataset_kind(folder.write("a.txt", "")); }).first ==
        ErrorCode::kInvalidArgument);
}

TEST_CASE("folders are distinguished by their content", "[io][formats][kind]") {
  const TempDir folder;
  folder.write("empty/sub/readme.txt", "");
  CHECK(detect_dataset_kind(folder.file("empty")) == DatasetKind::kFolder);
  folder.write("tars/deep/a.tar", make_shard(0, 1));
  CHECK(detect_dataset_kind(folder.file("tars")) == DatasetKind::kPlainTars);
  prepare_folder(folder.file("tars"));
  CHECK(detect_dataset_kind(folder.file("tars")) == DatasetKind::kPrepared);
  folder.write("legacy/.nv-meta/.info.yaml", "");
  CHECK(detect_dataset_kind(folder.file("legacy")) == DatasetKind::kPrepared);
  folder.write("media/.nv-meta/index.sqlite", "");
  folder.write("media/a.jpg", "");
  CHECK(detect_dataset_kind(folder.file("media")) == DatasetKind::kFolder);
  // A prepare-media of a folder of files that was killed before its first index.
  std::filesystem::create_directories(folder.file("killed/.nv-meta"));
  CHECK(detect_dataset_kind(folder.file("killed")) == DatasetKind::kFolder);
  folder.write("killed/.nv-meta/index.sqlite.tmp.0123456789abcdef", "");
  CHECK(detect_dataset_kind(folder.file("killed")) == DatasetKind::kFolder);
  folder.write("killed/a.tar", "");
  CHECK(detect_dataset_kind(folder.file("killed")) == DatasetKind::kPrepared);
  folder.write("half/.nv-meta/split.yaml", "");
  CHECK(detect_dataset_kind(folder.file("half")) == DatasetKind::kPrepared);
}

TEST_CASE("missing paths and URLs are refused", "[io][formats][kind]") {
  const TempDir folder;
  CHECK(error_of([&] { detect_dataset_kind(folder.file("absent")); }).first ==
        ErrorCode::kNotFound);
  const auto [code, message] = error_of([] { detect_dataset_kind("msc://profile/data"); });
  CHECK(code == ErrorCode::kUnsupported);
  CHECK(contains(message, "only local files are supported, not msc://"));
  for (const char* path : {"/data/a://b", "://a", "a:/b", "a b://c"}) {
    CAPTURE(path);
    CHECK_NOTHROW(energon::refuse_url(path));
  }
  CHECK(contains(error_of([] { energon::refuse_url("s3://a", "splits.train"); }).second,
                 "splits.train: only local files"));
}

TEST_CASE("only files named .yaml are metadatasets", "[io][formats][kind]") {
  const TempDir folder;
  CHECK(is_metadataset(folder.write("a.yaml", "")));
  CHECK_FALSE(is_metadataset(folder.write("a.yml", "")));
  CHECK_FALSE(is_metadataset(folder.file("absent.yaml")));
  std::filesystem::create_directory(folder.file("folder.yaml"));
  CHECK_FALSE(is_metadataset(folder.file("folder.yaml")));
}

TEST_CASE("every kind has a name", "[io][formats][kind]") {
  for (const auto kind : {DatasetKind::kPrepared, DatasetKind::kPlainTars, DatasetKind::kJsonl,
                          DatasetKind::kMetadataset, DatasetKind::kFolder}) {
    CAPTURE(kind);
    CHECK(to_string(kind) != "unknown");
  }
}
