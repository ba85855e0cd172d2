#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/shard_opening.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/io/shards.h"
#include "tests/support/count_system_calls.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using energon::CheckShards;
using energon::ErrorCode;
using energon::open_split;
using energon::OpenOptions;
using energon::ShardFile;
using energon::ShardSet;
using energon::testing::change_byte;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::make_shard;
using energon::testing::TempDir;

namespace fs = std::filesystem;

namespace {

constexpr int kTars = 20;

struct Tars {
  TempDir root;
  std::string data = root.file("data");

  explicit Tars(int count = kTars) {
    for (int i = 0; i < count; ++i) {
      write(i, make_shard(10 * i, 2));
    }
  }
  static std::string name(int tar) { return fmt::format("{:03}.tar", tar); }
  std::string path(int tar) const { return data + "/" + name(tar); }
  void write(int tar, const std::string& content) const {
    root.write("data/" + name(tar), content);
  }
  ShardSet open(CheckShards check_shards = CheckShards::kAtFirstRead) const {
    return open_split(data, {.check_shards = check_shards, .cache_dir = root.file("cache")});
  }
  std::string record() const {
    const auto files = files_below(root.file("cache/record"));
    REQUIRE(files.size() == 1);
    return root.file("cache/record/" + files.front());
  }
};

std::int64_t samples_looked_at(const ShardSet& set) {
  return std::count_if(set.shards.begin(), set.shards.end(),
                       [](const ShardFile& shard) { return shard.is_checked; });
}

std::vector<std::int64_t> counts(const ShardSet& set) {
  std::vector<std::int64_t> result;
  for (const ShardFile& shard : set.shards) {
    result.push_back(shard.sample_count);
  }
  return result;
}

// Without the members that only a record has.
ShardFile bare(ShardFile shard) {
  shard.noted_index_digest.reset();
  shard.checksum_digest.reset();
  return shard;
}

}  // namespace

TEST_CASE("plain tars that were opened before are not examined again",
          "[io][formats][record][plain]") {
  const Tars tars;
  CHECK(samples_looked_at(tars.open()) == kTars);
  const ShardSet set = tars.open();
  CHECK(samples_looked_at(set) == 0);
  const ShardSet exact = tars.open(CheckShards::kAtOpening);
  CHECK(samples_looked_at(exact) == kTars);
  for (std::size_t i = 0; i < kTars; ++i) {
    CAPTURE(i);
    CHECK(bare(set.check(set.shards[i])) == exact.shards[i]);
    ShardFile known = bare(set.shards[i]);
    known.is_checked = true;
    CHECK(known == exact.shards[i]);
  }
}

TEST_CASE("a plain tar that changed is examined, the others are not",
          "[io][formats][record][plain]") {
  const Tars tars;
  tars.open();
  std::vector<std::int64_t> expected(kTars, 2);
  SECTION("written over in place") {
    tars.write(7, make_shard(70, 5));
    expected[7] = 5;
    const ShardSet set = tars.open();
    CHECK(samples_looked_at(set) == 1);
    CHECK(set.shards[7].is_checked);
    CHECK(counts(set) == expected);
  }
  SECTION("with another time") {
    fs::last_write_time(tars.path(3), fs::last_write_time(tars.path(3)) + std::chrono::seconds(9));
    CHECK(samples_looked_at(tars.open()) == 1);
  }
  SECTION("missing") {
    fs::remove(tars.path(0));
    expected.pop_back();
    CHECK(counts(tars.open()) == expected);
  }
  SECTION("new") {
    tars.write(kTars, make_shard(900, 3));
    expected.push_back(3);
    CHECK(samples_looked_at(tars.open()) == 1);
  }
  const ShardSet again = tars.open();
  CHECK(samples_looked_at(again) == 0);
  CHECK(counts(again) == expected);
}

TEST_CASE("a damaged record of plain tars is rebuilt", "[io][formats][record][plain]") {
  const Tars tars;
  tars.open();
  const std::string path = tars.record();
  SECTION("changed") { change_byte(path, 100); }
  SECTION("empty") { fs::resize_file(path, 0); }
  SECTION("removed") { fs::remove(path); }
  SECTION("of another folder") {
    const Tars other;
    other.open();
    fs::copy_file(other.record(), path, fs::copy_options::overwrite_existing);
  }
  CHECK(samples_looked_at(tars.open()) == kTars);
  CHECK(samples_looked_at(tars.open()) == 0);
}

TEST_CASE("few plain tars, and those without a cache, are examined each time",
          "[io][formats][record][plain]") {
  const Tars few(4);
  few.open();
  CHECK(samples_looked_at(few.open()) == 4);
  CHECK_FALSE(fs::exists(few.root.file("cache")));
  const Tars many;
  many.root.write("file", "");
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    const ShardSet set = open_split(many.data, {.check_shards = CheckShards::kAtFirstRead,
                                                .cache_dir = many.root.file("file")});
    CHECK(samples_looked_at(set) == kTars);
  }
}

TEST_CASE("the index of a plain tar is checked at its first read", "[io][formats][record][plain]") {
  const Tars tars;
  tars.open();
  const ShardSet set = tars.open();
  const std::string index = tars.path(5) + ".idx";
  SECTION("missing: it is rebuilt") { fs::remove(index); }
  SECTION("damaged: it is rebuilt") { fs::resize_file(index, 11); }
  SECTION("another one with the same time") {
    const auto time = fs::last_write_time(index);
    change_byte(index, 9, 4);  // sample 1 starts at another member
    fs::last_write_time(index, time);
    const auto [code, message] = error_of([&] { set.check(set.shards[5]); });
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, "the index of shard '005.tar' changed"));
    CHECK(contains(message, "remove '" + tars.record() + "'"));
    return;
  }
  CHECK(bare(set.check(set.shards[5])) == tars.open(CheckShards::kAtOpening).shards[5]);
}

TEST_CASE("the record notes that an index is in the cache", "[io][formats][record][plain]") {
  const Tars tars;
  fs::create_directory(tars.path(2) + ".idx");  // so that none can be next to the tar
  tars.root.write("data/002.tar.idx/x", "");
  tars.open();
  const ShardSet set = tars.open();
  CHECK(samples_looked_at(set) == 0);
  CHECK(contains(set.shards[2].index_path, "cache/index/002.tar-"));
  CHECK(bare(set.check(set.shards[2])) == tars.open(CheckShards::kAtOpening).shards[2]);
}

TEST_CASE("a plain tar without its end is a warning each time", "[io][formats][record][plain]") {
  const Tars tars;
  tars.write(4, make_shard(40, 2).substr(0, 2 * 2560));
  tars.open();
  const ShardSet set = tars.open();
  CHECK(samples_looked_at(set) == 0);
  CHECK(set.warnings.size() == 1);
  CHECK(set.warnings == tars.open(CheckShards::kAtOpening).warnings);
}

TEST_CASE("opening plain tars again costs one system call for each",
          "[io][formats][record][plain][fork]") {
  const auto calls_of = [](int count) {
    const Tars tars(count);
    tars.open();
    return energon::testing::count_system_calls([&] {
      open_split(tars.data, {.check_shards = CheckShards::kAtFirstRead,
                             .cache_dir = tars.root.file("cache"),
                             .index_threads = 1});
    });
  };
  const auto few = calls_of(kTars);
  if (!few) {
    return energon::testing::skip_case("processes cannot be traced");
  }
  CHECK(*calls_of(kTars + 100) <= *few + 102);
}
