#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/dataset/shard_opening.h"
#include "io/error.h"
#include "io/lint/lint.h"
#include "tests/io/dataset/recorded_folder.h"
#include "tests/support/count_system_calls.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"

using energon::CheckShards;
using energon::Checksums;
using energon::ErrorCode;
using energon::open_split;
using energon::OpenOptions;
using energon::ShardFile;
using energon::ShardSet;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::gzip;
using energon::testing::is_checked;
using energon::testing::is_unchecked;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::RecordedFolder;
using energon::testing::TempDir;

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kSummaryAge{100};

// The shard of `set` as another process finds it by examining it.
ShardFile looked_at(const ShardSet& set, std::size_t shard) {
  ShardFile file = set.check(set.shards[shard]);
  file.checksum_digest.reset();
  return file;
}

}  // namespace

TEST_CASE("a prepared dataset is opened by its record alone", "[io][formats][record]") {
  const RecordedFolder fixture(GENERATE(Checksums::kNone, Checksums::kWrite));
  const ShardSet exact = fixture.open(CheckShards::kAtOpening);
  CHECK(is_checked(exact));
  const auto files = files_below(fixture.root.path());
  const ShardSet set = fixture.open();
  CHECK(is_unchecked(set));
  CHECK(files_below(fixture.root.path()) == files);
  CHECK(set.warnings.empty());
  REQUIRE(set.shards.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CAPTURE(i);
    CHECK(looked_at(set, i) == exact.shards[i]);
    ShardFile known = set.shards[i];
    CHECK(known.checksum_digest.has_value() == !known.checksum_path.empty());
    known.checksum_digest.reset();
    known.is_checked = true;
    known.tar_identity = exact.shards[i].tar_identity;
    CHECK(known == exact.shards[i]);
  }
  // No shard and no index is needed.
  fs::rename(fixture.file("a.tar"), fixture.root.file("away"));
  fs::remove_all(fixture.file("d"));
  CHECK(fixture.open().shards == set.shards);
  CHECK(fixture.open_error().first == ErrorCode::kNotFound);
}

TEST_CASE("opening by a record costs no system calls per shard", "[io][formats][record][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    return energon::testing::skip_case("a sanitizer makes calls of its own");
  }
  const auto calls_of = [](int shards, CheckShards check_shards) {
    const TempDir folder;
    for (int i = 0; i < shards; ++i) {
      folder.write(std::to_string(i) + ".tar", make_shard(10 * i, 2));
    }
    prepare_folder(folder.path());
    return energon::testing::count_system_calls(
        [&] { open_split(folder.path(), {.check_shards = check_shards, .index_threads = 1}); });
  };
  const auto few = calls_of(1, CheckShards::kAtFirstRead);
  if (!few) {
    return energon::testing::skip_case("processes cannot be traced");
  }
  CHECK(*few < 60);
  CHECK(calls_of(100, CheckShards::kAtFirstRead) == few);
  CHECK(*calls_of(100, CheckShards::kAtOpening) > *few + 100);
}

TEST_CASE("something missing in a shard is the same error at the first read as at opening",
          "[io][formats][record]") {
  const RecordedFolder fixture(Checksums::kWrite);
  const std::string tar = fixture.file("a.tar");
  const auto time = fs::last_write_time(tar);
  const auto rewrite = [&](const std::string& content, std::chrono::seconds by) {
    fixture.write("a.tar", content);
    fs::last_write_time(tar, time + by);
  };
  std::string problem;
  SECTION("the shard") {
    fs::remove(tar);
    problem = "the shard 'a.tar' is missing";
  }
  SECTION("its index") {
    fs::remove(tar + ".idx");
    problem = "a.tar.idx' is missing; run: energon prepare";
  }
  SECTION("its end") {
    fs::resize_file(tar, 100 * 2560);
    problem = "shard 'a.tar' is not the one that was prepared";
  }
  SECTION("its samples") {
    fs::resize_file(tar, 2560);
    problem = "shard 'a.tar': the index ";
  }
  SECTION("its samples, all replaced") {
    rewrite(make_shard(500, 100), kSummaryAge);
    problem = "shard 'a.tar' is not the one that was prepared";
  }
  SECTION("its own index") {
    fs::copy_file(fixture.file("d/b.tar.idx"), tar + ".idx", fs::copy_options::overwrite_existing);
    problem = "shard 'a.tar': the samples end";
  }
  SECTION("its checksums") {
    fs::remove(tar + ".xxh3");
    problem = "shard 'a.tar': the dataset was prepared with checksums";
  }
  const ShardSet set = fixture.open();
  REQUIRE(is_unchecked(set));
  const auto error = error_of([&] { set.check(set.shards[0]); });
  CHECK(contains(error.second, problem));
  CHECK(error == fixture.open_error());
  CHECK(looked_at(set, 1).name == "d/b.tar");
}

TEST_CASE("a copy with other times is opened by its record", "[io][formats][record]") {
  const RecordedFolder fixture;
  fixture.write("a.tar", make_shard(0, 100));
  fs::last_write_time(fixture.file("a.tar"),
                      fs::last_write_time(fixture.file("a.tar")) - kSummaryAge);
  const ShardSet set = fixture.open();
  CHECK(is_unchecked(set));
  CHECK(looked_at(set, 0) == fixture.open(CheckShards::kAtOpening).shards[0]);
}

TEST_CASE("options that need it examine each shard", "[io][formats][record]") {
  const RecordedFolder fixture(Checksums::kWrite);
  OpenOptions options = fixture.options(CheckShards::kAtFirstRead);
  SECTION("broken shards are left out") { options.broken_shards = energon::BrokenShards::kSkip; }
  SECTION("tars are strict") { options.strictness = energon::ScanStrictness::kStrict; }
  SECTION("checksums are not needed") { options.needs_checksums = false; }
  CHECK(is_checked(open_split(fixture.data, options)));
}

TEST_CASE("compressed shards are examined when they are opened", "[io][formats][record]") {
  const TempDir root;
  root.write("data/a.tgz", gzip(make_shard(0, 3)));
  const OpenOptions options{.check_shards = CheckShards::kAtFirstRead,
                            .cache_dir = root.file("cache")};
  prepare_folder(root.file("data"), {.cache_dir = root.file("cache")});
  CHECK(is_checked(open_split(root.file("data"), options)));
  CHECK(energon::lint(root.file("data")).ok());
}

TEST_CASE("shards with excluded samples are examined, the others are not",
          "[io][formats][record]") {
  const RecordedFolder fixture;
  fixture.write(".nv-meta/split.yaml",
                "split_parts:\n  train: [a.tar, d/b.tar]\nexclude: [d/b.tar/000101]\n");
  const ShardSet set = fixture.open();
  CHECK_FALSE(set.shards[0].is_checked);
  CHECK(set.shards[1].is_checked);
  CHECK(set.excludes == std::vector<energon::SampleExclude>{{.shard = 1, .sample = 1}});
  fixture.write(".nv-meta/split.yaml", "split_parts: {train: [a.tar]}\nexclude: []\n");
  CHECK(fixture.open().shards.size() == 1);
  fixture.write(".nv-meta/split.yaml", "split_parts: {train: [c.tar]}\nexclude: []\n");
  CHECK(contains(error_of([&] { fixture.open(); }).second, ".info.json does not list"));
}

TEST_CASE("a tar without its end is a warning with a record, too", "[io][formats][record]") {
  const TempDir folder;
  const std::string tar = make_shard(0, 3);
  folder.write("a.tar", tar.substr(0, 3 * 2560));
  prepare_folder(folder.path());
  const ShardSet set = open_split(folder.path(), {.check_shards = CheckShards::kAtFirstRead});
  CHECK(is_unchecked(set));
  CHECK(set.warnings.size() == 1);
  CHECK(set.warnings == open_split(folder.path()).warnings);
}
