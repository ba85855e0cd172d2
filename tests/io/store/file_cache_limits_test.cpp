#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "io/store/file_cache.h"
#include "tests/io/store/scripted_store.h"
#include "tests/support/temp_dir.h"

using energon::FileCache;
using energon::FileCacheOptions;
using energon::LazyFile;
using energon::testing::Files;
using energon::testing::ScriptedStore;
using energon::testing::TempDir;

namespace {

using Names = std::vector<std::string>;

// A cache over one store of files of these sizes. Every verb waits until the cache has settled.
class Room {
 public:
  Room(const std::map<std::string, std::size_t>& sizes, FileCacheOptions options)
      : store(contents(sizes)), cache(with_parent(std::move(options), folder_)) {}

  std::shared_ptr<LazyFile> ask_for(const std::string& name) {
    auto file = cache.get_lazy("s", store.factory(), name);
    cache.wait_until_settled();
    return file;
  }
  void drop(std::shared_ptr<LazyFile>& file) {
    file.reset();
    cache.wait_until_settled();
  }

 private:
  static Files contents(const std::map<std::string, std::size_t>& sizes) {
    Files files;
    for (const auto& [name, size] : sizes) {
      files[name] = std::string(size, name[0]);
    }
    return files;
  }
  static FileCacheOptions with_parent(FileCacheOptions options, const TempDir& folder) {
    options.parent_folder = folder.path();
    return options;
  }

  const TempDir folder_;

 public:
  ScriptedStore store;
  FileCache cache;
};

}  // namespace

TEST_CASE("test_size_limits: a fetch without space waits, and get() does not",
          "[io][formats][cache]") {
  Room room({{"a", 60}, {"b", 60}, {"c", 20}}, {.threads = 1, .max_bytes = 100});
  auto a = room.ask_for("a");
  auto b = room.ask_for("b");
  auto c = room.ask_for("c");
  CHECK(room.cache.usage().bytes == 60);
  CHECK(room.cache.usage().waiting == 1);    // b, with the only thread
  CHECK(room.cache.usage().requested == 1);  // c
  // b has been read, so its bytes are available; c has not.
  CHECK(b->get().bytes.text() == std::string(60, 'b'));
  CHECK(b->get().bytes.text() == std::string(60, 'b'));
  CHECK(room.store.reads() == Names{"a", "b"});
  CHECK(c->get().bytes.text() == std::string(20, 'c'));
  CHECK(room.store.reads() == Names{"a", "b", "c"});

  room.drop(a);
  CHECK(room.cache.usage().bytes == 80);
  CHECK(room.cache.usage().files == 2);
  CHECK(room.cache.usage().waiting == 0);
  CHECK(b->get().bytes.text() == std::string(60, 'b'));
  CHECK(c->get().bytes.text() == std::string(20, 'c'));
  CHECK(room.store.reads() == Names{"a", "b", "c", "c"});
  room.drop(b);
  room.drop(c);
  CHECK(room.cache.usage().bytes == 0);
}

TEST_CASE("the number of files is limited, too", "[io][formats][cache]") {
  Room room({{"a", 0}, {"b", 0}, {"c", 0}}, {.max_files = 2});
  auto a = room.ask_for("a");
  auto b = room.ask_for("b");
  auto c = room.ask_for("c");
  CHECK(room.cache.usage().files == 2);
  CHECK(room.cache.usage().waiting == 1);
  room.drop(b);
  CHECK(room.cache.usage().files == 2);
  CHECK(room.cache.usage().waiting == 0);
}

TEST_CASE("a file that fills the cache exactly is cached", "[io][formats][cache]") {
  Room room({{"a", 100}}, {.max_bytes = 100});
  const auto a = room.ask_for("a");
  CHECK(room.cache.usage().bytes == 100);
}

TEST_CASE("a file larger than the cache is never cached and does not block others",
          "[io][formats][cache]") {
  Room room({{"a", 101}, {"b", 100}}, {.threads = 1, .max_bytes = 100});
  const auto a = room.ask_for("a");
  const auto b = room.ask_for("b");
  CHECK(room.cache.usage().bytes == 100);
  CHECK(room.cache.usage().waiting == 0);
  CHECK(a->get().bytes.text() == std::string(101, 'a'));
  CHECK(a->get().bytes.text() == std::string(101, 'a'));
  CHECK(room.store.reads() == Names{"a", "b", "a", "a"});
}

TEST_CASE("space is granted in request order, even if a later file would fit",
          "[io][formats][cache]") {
  Room room({{"a", 50}, {"b", 80}, {"c", 30}, {"d", 10}}, {.threads = 4, .max_bytes = 100});
  auto a = room.ask_for("a");
  auto b = room.ask_for("b");
  auto c = room.ask_for("c");
  auto d = room.ask_for("d");
  CHECK(room.cache.usage().bytes == 50);  // c and d would fit, but wait for b
  CHECK(room.cache.usage().waiting == 3);
  room.drop(a);
  CHECK(room.cache.usage().bytes == 80);  // b; d would fit, but waits for c
  CHECK(room.cache.usage().waiting == 2);
  room.drop(b);
  CHECK(room.cache.usage().bytes == 40);
  CHECK(room.cache.usage().waiting == 0);
}

TEST_CASE("a dropped file no longer blocks later ones", "[io][formats][cache]") {
  Room room({{"a", 50}, {"b", 80}, {"c", 30}}, {.threads = 4, .max_bytes = 100});
  auto a = room.ask_for("a");
  auto b = room.ask_for("b");
  auto c = room.ask_for("c");
  CHECK(room.cache.usage().waiting == 2);
  room.drop(b);
  CHECK(room.cache.usage().waiting == 0);
  CHECK(room.cache.usage().bytes == 80);  // a and c
  room.drop(a);
  room.drop(c);
  CHECK(room.cache.usage().bytes == 0);
  CHECK(room.cache.usage().files == 0);
}

TEST_CASE("requests are fetched in their order", "[io][formats][cache]") {
  Room room({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}, {.threads = 1});
  room.store.hold("c");
  const auto c = room.cache.get_lazy("s", room.store.factory(), "c");
  room.store.wait_for_read("c");
  const auto b = room.cache.get_lazy("s", room.store.factory(), "b");
  const auto d = room.cache.get_lazy("s", room.store.factory(), "d");
  const auto a = room.cache.get_lazy("s", room.store.factory(), "a");
  const auto d_again = room.cache.get_lazy("s", room.store.factory(), "d");
  room.store.let_go("c");
  room.cache.wait_until_settled();
  CHECK(room.store.reads() == Names{"c", "b", "d", "a"});
}
