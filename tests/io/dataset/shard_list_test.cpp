#include "io/dataset/shard_list.h"

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::find_shards;
using energon::FoundShards;
using energon::has_shards;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::TempDir;
using Names = std::vector<std::string>;

namespace fs = std::filesystem;

TEST_CASE("shards are sorted folder by folder", "[io][formats][shards]") {
  const TempDir folder;
  for (const char* name :
       {"train-extra/0.tar", "train/z/1.tar", "train/a.tar", "train.tar", "a.tgz", "train!/0.tar",
        "train/z.tar", "Z.tar.gz", "x.tar.zst", "notes.txt", "train/z/0.tar"}) {
    folder.write(name, "");
  }
  CHECK(find_shards(folder.path()).names ==
        Names{"Z.tar.gz", "a.tgz", "train/a.tar", "train/z/0.tar", "train/z/1.tar", "train/z.tar",
              "train!/0.tar", "train-extra/0.tar", "train.tar", "x.tar.zst"});
}

TEST_CASE("links to folders are followed once on a path", "[io][formats][shards]") {
  const TempDir folder;
  folder.write("a/0.tar", "");
  fs::create_directory_symlink(folder.file("a"), folder.file("b"));
  fs::create_directory_symlink(folder.path(), folder.file("a/back"));
  fs::create_directory_symlink(folder.file("a"), folder.file("a/self"));
  fs::create_directory_symlink("nowhere", folder.file("dangling"));
  fs::create_directory_symlink("loop", folder.file("loop"));
  fs::create_symlink(folder.file("a/0.tar"), folder.file("file.tar"));
  CHECK(find_shards(folder.path()).names == Names{"a/0.tar", "b/0.tar", "file.tar"});
}

TEST_CASE("listing folders that link to each other ends soon", "[io][formats][shards]") {
  const TempDir folder;
  constexpr int kFolders = 20;  // 2^20 paths
  for (int i = 0; i < kFolders; ++i) {
    const std::string name = "d/" + std::to_string(i);
    fs::create_directories(folder.file(name));
    for (const char* link : {"/a", "/b"}) {
      fs::create_directory_symlink(folder.file("d/" + std::to_string(i + 1)),
                                   folder.file(name + link));
    }
  }
  folder.write("d/20/x.tar", "");
  const auto [code, message] = error_of([&] { find_shards(folder.path()); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "links lead to more than 100000 folders"));
  CHECK(contains(message, "[path: " + folder.file("d/")));
  CHECK(find_shards(folder.file("d/15")).names.size() == 32);
}

TEST_CASE("a dangling link with the name of a shard is an error", "[io][formats][shards]") {
  const TempDir folder;
  fs::create_symlink("nowhere", folder.file("x.tar"));
  CHECK(contains(error_of([&] { find_shards(folder.path()); }).second, "x.tar"));
  CHECK(contains(error_of([&] { find_shards(folder.file("absent")); }).second, "absent"));
}

TEST_CASE("hidden shards and folders are skipped and counted", "[io][formats][shards]") {
  const TempDir folder;
  folder.write(".nv-meta/x.tar", "");
  folder.write(".nv-meta.prepare/x.tar", "");
  folder.write(".notes", "");
  CHECK(find_shards(folder.path()).warnings().empty());
  CHECK_FALSE(has_shards(folder.path()));
  folder.write(".trash/x.tar", "");
  folder.write("d/._0.tar", "");
  folder.write("d/.1.tgz", "");
  CHECK_FALSE(has_shards(folder.path()));
  folder.write("d/0.tar", "");
  CHECK(has_shards(folder.path()));
  const FoundShards found = find_shards(folder.path());
  CHECK(found.names == Names{"d/0.tar"});
  CHECK(found.hidden_shards == 2);
  CHECK(found.hidden_folders == 1);
  CHECK(
      found.warnings() ==
      Names{
          "names that begin with a dot are skipped: 2 shards and 1 folder; the first is '.trash'"});
}

TEST_CASE("an index without a shard is reported", "[io][formats][shards]") {
  const TempDir folder;
  for (const char* name : {"a.tar", "a.tar.idx", "b.tgz", "b.tar.idx", "c.tar.gz", "c.tar.tar.idx",
                           "x.jsonl.idx", "d/.e.tar.idx", "a.tar.idx.tmp.0"}) {
    folder.write(name, "");
  }
  CHECK(find_shards(folder.path()).warnings().empty());
  folder.write("d/2.tar.idx", "");
  CHECK(find_shards(folder.path()).warnings() ==
        Names{"the index 'd/2.tar.idx' has no shard next to it: the shard was deleted or is not "
              "visible to this process; if this is intended, remove the index"});
  folder.write("d-e/1.tar.idx", "");
  folder.write("d/10.tar.idx", "");
  CHECK(
      find_shards(folder.path()).warnings() ==
      Names{"3 indices have no shard next to them, the first is 'd/10.tar.idx': the shards were "
            "deleted or are not visible to this process; if this is intended, remove the indices"});
}
