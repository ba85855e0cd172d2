#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/dataset/shard_list.h"
#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::list_files;
using energon::testing::error_of;
using energon::testing::TempDir;
using Names = std::vector<std::string>;

namespace fs = std::filesystem;

TEST_CASE("files of a folder are listed in byte order", "[io][formats][files]") {
  const TempDir folder;
  for (const char* name : {"b.jpg", "a/z.jpg", "a-b/0.jpg", "a.jpg", ".hidden", ".git/x", "Z.jpg",
                           "a/b/c.jpg", ".nv-meta/index.sqlite", ".nv-meta.prepare.0123/x",
                           "a/.nv-meta/x", ".nv-metal/x", "a/.nv-meta.txt"}) {
    folder.write(name, "");
  }
  fs::create_directory(folder.file("empty"));
  CHECK(list_files(folder.path()) == Names{".git/x", ".hidden", ".nv-metal/x", "Z.jpg", "a-b/0.jpg",
                                           "a.jpg", "a/.nv-meta.txt", "a/b/c.jpg", "a/z.jpg",
                                           "b.jpg"});
  CHECK(list_files(folder.path() + "/").size() == 10);
  CHECK(list_files(folder.file("empty")).empty());
  CHECK(error_of([&] { list_files(folder.file("absent")); }).first == ErrorCode::kNotFound);
}

TEST_CASE("links are followed, except back", "[io][formats][files]") {
  const TempDir folder;
  const TempDir other;
  other.write("x/1.jpg", "");
  folder.write("a/0.jpg", "");
  fs::create_directory_symlink(other.path(), folder.file("b"));
  fs::create_directory_symlink(folder.path(), folder.file("a/back"));
  fs::create_directory_symlink("loop", folder.file("loop"));
  fs::create_symlink("nowhere", folder.file("gone.jpg"));
  fs::create_symlink("a/0.jpg", folder.file("link.jpg"));
  REQUIRE(::mkfifo(folder.file("pipe.jpg").c_str(), 0600) == 0);
  // A link to itself cannot be distinguished from a dangling link.
  CHECK(list_files(folder.path()) == Names{"a/0.jpg", "b/x/1.jpg", "gone.jpg", "link.jpg", "loop"});
}
