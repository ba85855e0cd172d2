#include "io/store/file_cache.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/io/shards.h"
#include "tests/io/store/scripted_store.h"
#include "tests/support/temp_dir.h"

using energon::Error;
using energon::ErrorCode;
using energon::FileCache;
using energon::FileCacheOptions;
using energon::FileStoreItem;
using energon::FolderFileStore;
using energon::LazyFile;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::Files;
using energon::testing::files_below;
using energon::testing::ScriptedStore;
using energon::testing::TempDir;

namespace {

using Names = std::vector<std::string>;

// Files of the cache on the disk.
std::size_t files_of(const FileCache& cache) { return files_below(cache.folder()).size() - 1; }

void check_equal(const FileStoreItem& one, const FileStoreItem& other) {
  CHECK(one.bytes.text() == other.bytes.text());
  CHECK(one.source_path == other.source_path);
  CHECK(one.shard == other.shard);
  CHECK(one.sample_index == other.sample_index);
  CHECK(one.range == other.range);
}

}  // namespace

TEST_CASE("test_get: a file is read from its store, and nothing is written to disk",
          "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}});
  FileCache cache({.parent_folder = folder.path()});
  CHECK(cache.get("s", store.factory(), "a").bytes.text() == "hello");
  CHECK(cache.get("s", store.factory(), "a").shard == "shard of a");
  CHECK(store.reads() == Names{"a", "a"});
  CHECK(store.opened() == 1);
  CHECK(files_of(cache) == 0);
  CHECK(error_of([&] { cache.get("s", store.factory(), "b"); }).first == ErrorCode::kNotFound);
}

TEST_CASE(
    "test_lazy: a file is fetched at once and read from the disk of the cache, any number "
    "of times",
    "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}, {"empty", ""}});
  FileCache cache({.parent_folder = folder.path()});
  const auto lazy = cache.get_lazy("s", store.factory(), "a");
  const auto empty = cache.get_lazy("s", store.factory(), "empty");
  CHECK(lazy->name() == "a");
  CHECK(lazy->store_id() == "s");
  cache.wait_until_settled();
  CHECK(files_of(cache) == 2);
  CHECK(cache.usage().files == 2);
  CHECK(cache.usage().bytes == 5);
  const FileStoreItem first = lazy->get();
  check_equal(first, lazy->get());
  CHECK(empty->get().bytes.size() == 0);
  CHECK(store.reads().size() == 2);
  check_equal(first, cache.get("s", store.factory(), "a"));
}

TEST_CASE("a get() waits for a fetch that is reading, and returns the same as later ones",
          "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}});
  FileCache cache({.parent_folder = folder.path(), .threads = 1});
  store.hold("a");
  const auto lazy = cache.get_lazy("s", store.factory(), "a");
  store.wait_for_read("a");
  FileStoreItem waited;
  std::thread waiter([&] { waited = lazy->get(); });
  store.let_go("a");
  waiter.join();
  CHECK(store.reads() == Names{"a"});
  cache.wait_until_settled();
  check_equal(waited, lazy->get());
  CHECK(store.reads() == Names{"a"});
}

TEST_CASE("a get() before its fetch has begun reads from the store", "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "first"}, {"b", "second"}});
  FileCache cache({.parent_folder = folder.path(), .threads = 1});
  store.hold("a");
  const auto a = cache.get_lazy("s", store.factory(), "a");
  store.wait_for_read("a");
  const auto b = cache.get_lazy("s", store.factory(), "b");
  CHECK(cache.usage().requested == 1);
  const FileStoreItem direct = b->get();
  CHECK(direct.bytes.text() == "second");
  CHECK(store.reads() == Names{"a", "b"});
  store.let_go("a");
  cache.wait_until_settled();
  check_equal(direct, b->get());
  CHECK(files_of(cache) == 2);
}

TEST_CASE("test_refcount: a file is fetched once and cached until the last lazy file is destroyed",
          "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}});
  FileCache cache({.parent_folder = folder.path()});
  auto one = cache.get_lazy("s", store.factory(), "a");
  auto two = cache.get_lazy("s", store.factory(), "a");
  cache.wait_until_settled();
  auto three = cache.get_lazy("s", store.factory(), "a");
  CHECK(store.reads() == Names{"a"});
  one.reset();
  three.reset();
  CHECK(files_of(cache) == 1);
  CHECK(two->get().bytes.text() == "hello");
  CHECK(store.reads() == Names{"a"});
  two.reset();
  CHECK(files_of(cache) == 0);
  CHECK(cache.usage().bytes == 0);
  CHECK(cache.usage().files == 0);

  const auto again = cache.get_lazy("s", store.factory(), "a");
  cache.wait_until_settled();
  CHECK(store.reads() == Names{"a", "a"});
}

TEST_CASE("the same name in two stores is two files", "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore left(Files{{"a", "left"}});
  ScriptedStore right(Files{{"a", "right"}});
  FileCache cache({.parent_folder = folder.path()});
  const auto one = cache.get_lazy("left", left.factory(), "a");
  const auto two = cache.get_lazy("right", right.factory(), "a");
  cache.wait_until_settled();
  CHECK(one->get().bytes.text() == "left");
  CHECK(two->get().bytes.text() == "right");
  CHECK(files_of(cache) == 2);
}

TEST_CASE("bytes outlive file and cache", "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}});
  auto cache = std::make_unique<FileCache>(FileCacheOptions{.parent_folder = folder.path()});
  auto lazy = cache->get_lazy("s", store.factory(), "a");
  cache->wait_until_settled();
  const FileStoreItem item = lazy->get();
  lazy.reset();
  cache.reset();
  CHECK(item.bytes.text() == "hello");
}

TEST_CASE("a request that is no longer needed is not fetched", "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}, {"b", "never"}});
  FileCache cache({.parent_folder = folder.path(), .threads = 1});
  store.hold("a");
  const auto a = cache.get_lazy("s", store.factory(), "a");
  store.wait_for_read("a");
  cache.get_lazy("s", store.factory(), "b");
  CHECK(cache.usage().requested == 0);
  store.let_go("a");
  cache.wait_until_settled();
  CHECK(store.reads() == Names{"a"});
}

TEST_CASE("a file whose last lazy file is destroyed during the read leaves no trace",
          "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}});
  FileCache cache({.parent_folder = folder.path(), .threads = 2});
  store.hold("a");
  auto dropped = cache.get_lazy("s", store.factory(), "a");
  store.wait_for_read("a");
  dropped.reset();
  const auto wanted = cache.get_lazy("s", store.factory(), "a");  // another fetch
  store.let_go("a");
  cache.wait_until_settled();
  CHECK(wanted->get().bytes.text() == "hello");
  CHECK(store.reads() == Names{"a", "a"});
  CHECK(files_of(cache) == 1);
  CHECK(cache.usage().files == 1);
  CHECK(cache.usage().bytes == 5);
}

TEST_CASE("an error of the store is thrown by each get()", "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{});
  FileCache cache({.parent_folder = folder.path()});
  SECTION("of a missing file") {
    const auto lazy = cache.get_lazy("s", store.factory(), "a");
    cache.wait_until_settled();
    for (int i = 0; i < 2; ++i) {
      CAPTURE(i);
      try {
        lazy->get();
        FAIL_CHECK("nothing was thrown");
      } catch (Error& error) {
        CHECK(error.code() == ErrorCode::kNotFound);
        CHECK_FALSE(error.context().worker);
        error.with({.worker = 3});  // changes only this error
      }
    }
    CHECK(store.reads() == Names{"a"});
    CHECK(cache.usage().files == 0);
  }
  SECTION("of a store that cannot be opened, with an exception that is not an Error") {
    const auto lazy = cache.get_lazy(
        "s", []() -> std::unique_ptr<energon::FileStore> { throw std::runtime_error("no net"); },
        "a");
    CHECK_THROWS_WITH(lazy->get(), "no net");
    CHECK_THROWS_WITH(lazy->get(), "no net");
  }
  SECTION("of a function that opens nothing") {
    const auto lazy = cache.get_lazy(
        "s", [] { return std::unique_ptr<energon::FileStore>(); }, "a");
    CHECK(error_of([&] { lazy->get(); }).first == ErrorCode::kInvalidArgument);
  }
  SECTION("and the threads continue") {
    const TempDir files;
    files.write("x", "content");
    const auto bad = cache.get_lazy("s", store.factory(), "a");
    const auto good = cache.get_lazy(
        files.path(), [path = files.path()] { return std::make_unique<FolderFileStore>(path); },
        "x");
    CHECK(good->get().bytes.text() == "content");
    CHECK(good->get().source_path == files.file("x"));
  }
}

TEST_CASE("a file that others remove or change on the disk is read from its store",
          "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}});
  FileCache cache({.parent_folder = folder.path()});
  auto lazy = cache.get_lazy("s", store.factory(), "a");
  cache.wait_until_settled();
  SECTION("changed") {
    for (const std::string& name : files_below(cache.folder())) {
      std::filesystem::resize_file(cache.folder() + "/" + name, 2);
    }
  }
  SECTION("removed") { std::filesystem::remove_all(cache.folder()); }
  CHECK(lazy->get().bytes.text() == "hello");
  CHECK(store.reads() == Names{"a", "a"});
  lazy.reset();
  CHECK(cache.usage().files == 0);
}

TEST_CASE("a file that cannot be written is read from its store, and counted",
          "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}});
  FileCache cache({.parent_folder = folder.path()});
  std::filesystem::remove_all(cache.folder());
  const auto lazy = cache.get_lazy("s", store.factory(), "a");
  cache.wait_until_settled();
  CHECK(cache.usage().failed_writes == 1);
  CHECK(cache.usage().files == 0);
  CHECK(cache.usage().bytes == 0);
  CHECK(lazy->get().bytes.text() == "hello");
  CHECK(lazy->get().bytes.text() == "hello");
}

TEST_CASE("test_concurrency: many threads share few files and little space",
          "[io][formats][cache]") {
  constexpr int kThreads = 6;
  constexpr int kRounds = 150;
  constexpr int kFiles = 10;
  constexpr std::uint64_t kMaxBytes = 3500;
  const TempDir folder;
  Files files;
  for (int i = 0; i < kFiles; ++i) {
    files[std::to_string(i)] = std::string(1000, static_cast<char>('a' + i));
  }
  ScriptedStore store(files);
  FileCache cache({.parent_folder = folder.path(), .threads = 4, .max_bytes = kMaxBytes});
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int user = 0; user < kThreads; ++user) {
    users.emplace_back([&, user] {
      std::vector<std::shared_ptr<LazyFile>> held;
      for (int round = 0; round < kRounds; ++round) {
        const std::string name = std::to_string((user + round * (user + 1)) % kFiles);
        held.push_back(cache.get_lazy("s", store.factory(), name));
        const LazyFile& file = *held[held.size() / 2];
        wrong += file.get().bytes.text() != files.at(file.name());
        wrong += cache.usage().bytes > kMaxBytes;
        if (held.size() > 4) {
          held.erase(held.begin() + round % 4);
        }
      }
    });
  }
  for (std::thread& user : users) {
    user.join();
  }
  CHECK(wrong == 0);
  CHECK_FALSE(store.was_shared());
  CHECK(store.opened() <= kThreads + 4);
  cache.wait_until_settled();
  CHECK(cache.usage().bytes == 0);
  CHECK(cache.usage().files == 0);
  CHECK(cache.usage().requested == 0);
  CHECK(files_of(cache) == 0);
}

TEST_CASE("destroying the cache ends all waits", "[io][formats][cache]") {
  const TempDir folder;
  ScriptedStore store(Files{{"a", "hello"}, {"b", "hello"}, {"c", "hello"}, {"d", "hello"}});
  auto cache = std::make_unique<FileCache>(
      FileCacheOptions{.parent_folder = folder.path(), .threads = 2, .max_bytes = 8});
  const std::string cache_folder = cache->folder();
  const auto a = cache->get_lazy("s", store.factory(), "a");
  cache->wait_until_settled();
  const auto b = cache->get_lazy("s", store.factory(), "b");
  cache->wait_until_settled();
  REQUIRE(cache->usage().waiting == 1);  // b
  store.hold("c");
  const auto c = cache->get_lazy("s", store.factory(), "c");
  store.wait_for_read("c");
  const auto d = cache->get_lazy("s", store.factory(), "d");
  REQUIRE(cache->usage().requested == 1);  // d

  ErrorCode code = ErrorCode::kInternal;
  std::thread waiter([&] { code = error_of([&] { c->get(); }).first; });
  std::thread destroyer([&] { cache.reset(); });
  waiter.join();  // while the store is held
  CHECK(code == ErrorCode::kCancelled);
  store.let_go("c");
  destroyer.join();
  int number = 0;
  for (const auto& file : {a, b, c, d}) {
    INFO("file " << number++);
    CHECK(error_of([&] { file->get(); }).first == ErrorCode::kCancelled);
  }
  CHECK(store.reads() == Names{"a", "b", "c"});
  CHECK_FALSE(std::filesystem::exists(cache_folder));
}

TEST_CASE("invalid options of a cache are refused", "[io][formats][cache]") {
  const TempDir folder;
  const auto refused = [&](FileCacheOptions options, const std::string& name) {
    options.parent_folder = folder.path();
    const auto [code, message] = error_of([&] { const FileCache cache(options); });
    CHECK(code == ErrorCode::kInvalidArgument);
    CHECK(contains(message, name));
  };
  refused({.threads = 0}, "threads");
  refused({.threads = 1025}, "threads");
  refused({.max_bytes = 0}, "max_bytes");
  refused({.max_files = 0}, "max_files");
  CHECK(files_below(folder.path()).empty());
}
