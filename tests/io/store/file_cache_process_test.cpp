// A cache and its processes: leftovers and forks.

#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/store/file_cache.h"
#include "tests/io/shards.h"
#include "tests/io/store/scripted_store.h"
#include "tests/support/child_runner.h"
#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;

using energon::ErrorCode;
using energon::FileCache;
using energon::FileCacheOptions;
using energon::testing::error_of;
using energon::testing::Files;
using energon::testing::files_below;
using energon::testing::run_in_child;
using energon::testing::ScriptedStore;
using energon::testing::TempDir;

TEST_CASE("the folder of a cache is private to its owner, and is removed with it",
          "[io][formats][cache]") {
  const TempDir folder;
  {
    const FileCache cache({.parent_folder = folder.file("new/parent")});
    struct stat status {};
    REQUIRE(::stat(cache.folder().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777U) == 0700U);
    CHECK(cache.folder().starts_with(folder.file("new/parent/energon-cache-")));
  }
  CHECK(fs::is_empty(folder.file("new/parent")));
}

TEST_CASE("a folder that no process holds is removed, others are left alone",
          "[io][formats][cache]") {
  const TempDir folder;
  const TempDir elsewhere;
  elsewhere.write("precious", "x");
  folder.write("energon-cache-1-a/0", "left behind");
  folder.write("energon-cache-1-a/lock", "");
  folder.write("energon-cache-1-b/0", "left behind by one that died while it was removed");
  folder.write("energon-cache-file", "not a folder");
  folder.write("other/0", "not ours");
  fs::create_directory_symlink(elsewhere.path(), folder.file("energon-cache-link"));
  const FileCache living({.parent_folder = folder.path()});
  CHECK_FALSE(fs::exists(folder.file("energon-cache-1-a")));
  CHECK_FALSE(fs::exists(folder.file("energon-cache-1-b")));
  const FileCache another({.parent_folder = folder.path()});
  CHECK(fs::exists(living.folder() + "/lock"));
  CHECK(fs::exists(folder.file("energon-cache-file")));
  CHECK(fs::exists(folder.file("other/0")));
  CHECK(fs::exists(elsewhere.file("precious")));
  CHECK(fs::is_symlink(folder.file("energon-cache-link")));
}

TEST_CASE("the next cache removes the folder of a dead process", "[io][formats][cache][fork]") {
  const TempDir folder;
  const auto child = run_in_child([&] {
    ScriptedStore store(Files{{"a", "hello"}});
    static FileCache* cache = nullptr;  // never destroyed
    cache = new FileCache({.parent_folder = folder.path(), .threads = 1});
    static const auto file = cache->get_lazy("s", store.factory(), "a");
    cache->wait_until_settled();
    return cache->usage().files == 1 ? 0 : 1;
  });
  REQUIRE(child.exit_code == 0);
  REQUIRE(files_below(folder.path()).size() >= 2);  // a file and its lock
  const FileCache cache({.parent_folder = folder.path()});
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a cache and its files are refused after a fork, and the parent keeps its files",
          "[io][formats][cache][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    WARN("skipped: a fork copies the locks of AddressSanitizer's allocator as threads hold them");
    return;
  }
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}});
  auto cache = std::make_unique<FileCache>(FileCacheOptions{.parent_folder = folder.path()});
  auto lazy = cache->get_lazy("s", store.factory(), "a");
  cache->wait_until_settled();
  const auto child = run_in_child([&] {
    const auto is_refused = [](const std::function<void()>& use) {
      return error_of(use).first == ErrorCode::kCancelled;
    };
    const bool all_refused = is_refused([&] { lazy->get(); }) &&
                             is_refused([&] { cache->get("s", store.factory(), "a"); }) &&
                             is_refused([&] { cache->get_lazy("s", store.factory(), "a"); }) &&
                             is_refused([&] { cache->usage(); });
    cache.reset();
    lazy.reset();
    FileCache own({.parent_folder = folder.path(), .threads = 1});
    const auto file = own.get_lazy("s", store.factory(), "a");
    return all_refused && file->get().bytes.text() == "hello" ? 0 : 1;
  });
  CHECK_FALSE(child.timed_out);
  CHECK(child.exit_code == 0);
  CHECK(cache->usage().files == 1);
  CHECK(lazy->get().bytes.text() == "hello");
  CHECK(store.reads().size() == 1);
}
