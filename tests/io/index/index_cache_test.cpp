#include "io/index/index_cache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "io/dataset/dataset_folder.h"
#include "io/error.h"
#include "io/index/jsonl_index.h"
#include "io/index/tar_index.h"
#include "io/shared_folder.h"
#include "tests/io/shards.h"
#include "tests/support/child_runner.h"
#include "tests/support/temp_dir.h"

using energon::ensure_expanded;
using energon::ensure_indexed;
using energon::ErrorCode;
using energon::TarIndex;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::gzip;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

namespace {

std::int64_t samples_in(const std::string& index_path, const std::string& tar_path) {
  return TarIndex::load(index_path, std::filesystem::file_size(tar_path)).sample_count();
}

energon::FileIdentity identity_of(const std::string& path) {
  return energon::FileSource(path).identity();
}

// Starts `count` children that run `body`, and kills some of them after random short times.
template <typename Body>
void run_and_kill(int count, unsigned& seed, const Body& body) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      try {
        body();
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    seed = seed * 1664525 + 1013904223;
    std::this_thread::sleep_for(std::chrono::microseconds((seed >> 16) % 2000));
    if ((seed >> 8) % 2 == 0) {
      ::kill(pid, SIGKILL);
    }
  }
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
  }
}

}  // namespace

TEST_CASE("an index is built once and then found", "[io][formats][cache]") {
  const TempDir folder;
  const std::string tar = folder.write("a.tar", make_shard(0, 3));
  const std::string cache = folder.file("cache");
  const std::string index = ensure_indexed(tar, tar, cache);
  CHECK(index == tar + ".idx");
  const auto built = identity_of(index);
  CHECK(built.mtime_ns == identity_of(tar).mtime_ns);
  CHECK(ensure_indexed(tar, tar, cache) == index);
  CHECK(identity_of(index) == built);
}

TEST_CASE("an index of an older tar is rebuilt", "[io][formats][cache]") {
  const TempDir folder;
  const std::string tar = folder.write("a.tar", make_shard(0, 3));
  const std::string cache = folder.file("cache");
  ensure_indexed(tar, tar, cache);
  SECTION("by modification time") {
    folder.write("a.tar", make_shard(0, 5));
    // A tar that was moved here may be older than the index.
    std::filesystem::last_write_time(
        tar, std::filesystem::file_time_type::clock::now() - std::chrono::hours(100));
    CHECK(samples_in(ensure_indexed(tar, tar, cache), tar) == 5);
  }
  SECTION("by where the archive ends, if the time is the same") {
    const auto time = std::filesystem::last_write_time(tar);
    folder.write("a.tar", make_shard(0, 5));
    std::filesystem::last_write_time(tar, time);
    CHECK(samples_in(ensure_indexed(tar, tar, cache), tar) == 5);
  }
}

TEST_CASE("a damaged index is rebuilt", "[io][formats][cache]") {
  const TempDir folder;
  const std::string tar = folder.write("a.tar", make_shard(0, 3));
  const std::string index = ensure_indexed(tar, tar, folder.file("cache"));
  std::filesystem::resize_file(index, 13);
  energon::mark_index_fresh(index, identity_of(tar));
  CHECK(samples_in(ensure_indexed(tar, tar, folder.file("cache")), tar) == 3);
}

TEST_CASE("an index that is longer than its tar proves that the tar was truncated, and is kept",
          "[io][formats][cache]") {
  const TempDir folder;
  const std::string content = make_shard(0, 5);
  const std::string tar = folder.write("a.tar", content);
  const std::string index = ensure_indexed(tar, tar, folder.file("cache"));
  const std::string before = energon::read_file(index);
  constexpr std::size_t kSample = 5 * 512;  // of make_shard()
  SECTION("at the end of a sample") { folder.write("a.tar", content.substr(0, 3 * kSample)); }
  SECTION("at the end of a part") { folder.write("a.tar", content.substr(0, 3 * kSample + 1024)); }
  SECTION("in the middle of a part") {
    folder.write("a.tar", content.substr(0, 3 * kSample + 700));
  }
  SECTION("to nothing") { folder.write("a.tar", ""); }
  SECTION("overwritten by zeros from a sample on, with its size as before") {
    folder.write("a.tar",
                 content.substr(0, 3 * kSample) + std::string(content.size() - 3 * kSample, '\0'));
  }
  SECTION("its last part overwritten by zeros, with its size as before") {
    const std::size_t part = 5 * kSample - 3 * 512;  // a header and two blocks
    folder.write("a.tar", content.substr(0, part) + std::string(content.size() - part, '\0'));
  }
  const auto [code, message] = error_of([&] { ensure_indexed(tar, tar, folder.file("cache")); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK_THAT(message, Catch::Contains("its index") && Catch::Contains("remove '" + index + "'"));
  CHECK(energon::read_file(index) == before);
}

TEST_CASE("warnings of a scan are reported when the index is built", "[io][formats][cache]") {
  const TempDir folder;
  const std::string content = make_shard(0, 3);
  const std::string tar = folder.write("a.tar", content.substr(0, content.size() - 1024));
  CHECK(error_of([&] {
          energon::index_tar(tar, tar, folder.file("cache"), energon::ScanStrictness::kStrict);
        }).first == ErrorCode::kCorruptData);
  CHECK_FALSE(std::filesystem::exists(tar + ".idx"));
  const auto first = energon::index_tar(tar, tar, folder.file("cache"));
  CHECK(first.is_new);
  REQUIRE(first.warnings.size() == 1);
  CHECK_THAT(first.warnings[0], Catch::Contains("no end-of-archive block"));
  CHECK_FALSE(energon::index_tar(tar, tar, folder.file("cache")).is_new);
}

TEST_CASE("an index for a tar in a read-only folder is stored in the cache",
          "[io][formats][cache][fork]") {
  const TempDir folder;
  const std::string tar = folder.write("data/a.tar", make_shard(0, 3));
  std::filesystem::create_directory(folder.file("home"));
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  REQUIRE(::chmod(folder.file("home").c_str(), 0777) == 0);
  REQUIRE(::chmod(folder.file("data").c_str(), 0555) == 0);
  const auto result = energon::testing::run_in_child([&] {
    // The superuser may write anywhere.
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) {
      return 2;
    }
    const std::string cache = folder.file("home/cache");
    const std::string index = ensure_indexed(tar, tar, cache);
    if (!index.starts_with(cache) || samples_in(index, tar) != 3) {
      return 3;
    }
    const auto built = identity_of(index);
    return ensure_indexed(tar, tar, cache) == index && identity_of(index) == built ? 0 : 4;
  });
  CHECK(result.exit_code == 0);
  REQUIRE(::chmod(folder.file("data").c_str(), 0755) == 0);
  CHECK_FALSE(std::filesystem::exists(tar + ".idx"));
}

TEST_CASE("killed builders leave no index or a correct one", "[io][formats][cache][fork]") {
  const TempDir folder;
  const std::string tar = folder.write("a.tar", make_shard(0, 200));
  unsigned seed = 1;
  for (int round = 0; round < 15; ++round) {
    CAPTURE(round);
    std::filesystem::remove(tar + ".idx");
    run_and_kill(4, seed, [&] { ensure_indexed(tar, tar, folder.file("cache")); });
    if (std::filesystem::exists(tar + ".idx")) {
      CHECK(samples_in(tar + ".idx", tar) == 200);
    }
    CHECK(samples_in(ensure_indexed(tar, tar, folder.file("cache")), tar) == 200);
  }
}

TEST_CASE("killed expanders leave no copy or a correct one", "[io][formats][cache][fork]") {
  const TempDir folder;
  const std::string content = make_shard(0, 200);
  const std::string shard = folder.write("a.tgz", gzip(content));
  unsigned seed = 2;
  for (int round = 0; round < 15; ++round) {
    CAPTURE(round);
    const std::string cache = folder.file("cache" + std::to_string(round));
    run_and_kill(4, seed, [&] { ensure_expanded(shard, cache); });
    CHECK(energon::read_file(ensure_expanded(shard, cache)) == content);
    // Leftovers of the killed processes are removed once they are old.
    const std::string expanded = cache + "/expanded";
    for (const std::string& name : energon::testing::files_below(expanded)) {
      CAPTURE(name);
      CHECK((name.ends_with(".tar") || !energon::target_of_temporary(name).empty()));
      std::filesystem::last_write_time(
          expanded + "/" + name,
          std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
    }
    energon::remove_abandoned(expanded,
                              [](std::string_view name) { return name.ends_with(".tar"); });
    CHECK(energon::testing::files_below(cache).size() == 1);
  }
}

TEST_CASE("others wait for the process that expands a shard as long as it makes progress",
          "[io][formats][cache]") {
  const TempDir folder;
  const std::string shard = folder.write("a.tgz", gzip(make_shard(0, 3)));
  const std::string expanded = ensure_expanded(shard, folder.file("cache"));
  std::filesystem::remove(expanded);
  std::string waiting;
  std::thread other;
  {
    energon::ExpandTurn turn(expanded);
    other = std::thread([&] { waiting = ensure_expanded(shard, folder.file("cache")); });
    energon::NewFile copy(expanded, 0600);
    turn.announce(copy.temporary_path());
    copy.append(energon::as_bytes("made by the holder of the turn"));
    copy.publish_once();
  }
  other.join();
  CHECK(waiting == expanded);
  CHECK(energon::read_file(expanded) == "made by the holder of the turn");
  CHECK(energon::testing::files_below(folder.file("cache")).size() == 1);
}

TEST_CASE("a changed compressed shard is expanded again", "[io][formats][cache]") {
  const TempDir folder;
  const std::string shard = folder.write("a.tar.gz", gzip(make_shard(0, 3)));
  const std::string first = ensure_expanded(shard, folder.file("cache"));
  folder.write("a.tar.gz", gzip(make_shard(0, 4)));
  const std::string second = ensure_expanded(shard, folder.file("cache"));
  CHECK(first != second);
  CHECK(energon::read_file(second) == make_shard(0, 4));
}

TEST_CASE("a damaged compressed shard leaves nothing in the cache", "[io][formats][cache]") {
  const TempDir folder;
  const std::string bytes = gzip(make_shard(0, 3));
  const std::string shard = folder.write("a.tgz", bytes.substr(0, bytes.size() - 5));
  CHECK(error_of([&] { ensure_expanded(shard, folder.file("cache")); }).first ==
        ErrorCode::kCorruptData);
  CHECK(energon::testing::files_below(folder.file("cache")).empty());
}

namespace {

// During its lifetime, the environment provides no cache folder.
class NoCachePlace {
 public:
  NoCachePlace() {
    for (const char* const name : {"ENERGON_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) {
      const char* const value = std::getenv(name);
      saved_.emplace_back(name,
                          value == nullptr ? std::nullopt : std::optional<std::string>(value));
      ::unsetenv(name);
    }
  }
  ~NoCachePlace() {
    for (const auto& [name, value] : saved_) {
      value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
    }
  }
  NoCachePlace(const NoCachePlace&) = delete;
  NoCachePlace& operator=(const NoCachePlace&) = delete;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> saved_;
};

}  // namespace

TEST_CASE("the cache folder follows the environment", "[io][formats][cache]") {
  const NoCachePlace environment;
  CHECK(error_of([] { energon::default_cache_dir(); }).first == ErrorCode::kInvalidArgument);
  ::setenv("HOME", "/h", 1);
  CHECK(energon::default_cache_dir() == "/h/.cache/energon");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  CHECK(energon::default_cache_dir() == "/x/energon");
  ::setenv("ENERGON_CACHE_DIR", "/e", 1);
  CHECK(energon::default_cache_dir() == "/e");
}

TEST_CASE("without a cache folder, data that needs none is read", "[io][formats][cache]") {
  const TempDir folder;
  const NoCachePlace environment;
  const std::string tar = folder.write("a.tar", make_shard(0, 3));
  CHECK(energon::ensure_indexed(tar, tar, std::nullopt) == tar + ".idx");
  CHECK(energon::ensure_indexed(tar, tar, std::nullopt) == tar + ".idx");
  const std::string jsonl = folder.write("a.jsonl", "{}\n");
  CHECK(energon::ensure_jsonl_indexed(jsonl, std::nullopt) == jsonl + ".idx");
  // A prepared dataset whose shard is a copy.
  folder.write("d/a.tar", make_shard(0, 3));
  prepare_folder(folder.file("d"));
  std::filesystem::last_write_time(
      folder.file("d/a.tar"),
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(9));
  CHECK(energon::open_split(folder.file("d")).shards.size() == 1);
  const std::string compressed = folder.write("a.tgz", gzip(make_shard(0, 3)));
  const auto [code, message] = error_of([&] { ensure_expanded(compressed, std::nullopt); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "ENERGON_CACHE_DIR"));
}

TEST_CASE("cache names differ by path, size and time", "[io][formats][cache]") {
  const energon::FileIdentity identity{.device = 1, .inode = 2, .size_bytes = 3, .mtime_ns = 4};
  energon::FileIdentity larger = identity;
  larger.size_bytes = 5;
  energon::FileIdentity newer = identity;
  newer.mtime_ns = 5;
  energon::FileIdentity moved = identity;
  moved.inode = 9;
  const std::string name = energon::cache_name("/d/a.tar", identity);
  CHECK(name.starts_with("a.tar-"));
  CHECK(name != energon::cache_name("/e/a.tar", identity));
  CHECK(name != energon::cache_name("/d/a.tar", larger));
  CHECK(name != energon::cache_name("/d/a.tar", newer));
  CHECK(name == energon::cache_name("/d/./a.tar", moved));
  CHECK(energon::cache_name("/d/" + std::string(255, 'x'), identity).size() < 200);
}
