#include "io/dataset/shard_summary.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/dataset_info.h"
#include "io/error.h"
#include "io/file_source.h"
#include "io/hash.h"
#include "io/lint/lint.h"
#include "tests/io/shards.h"
#include "tests/support/count_system_calls.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using energon::CheckShards;
using energon::Checksums;
using energon::ErrorCode;
using energon::Existing;
using energon::open_split;
using energon::OpenOptions;
using energon::read_file;
using energon::ShardFile;
using energon::ShardSet;
using energon::ShardSummary;
using energon::testing::change_byte;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::gzip;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kLater{100};

struct Fixture {
  TempDir root;
  std::string data = root.file("data");

  explicit Fixture(Checksums checksums = Checksums::kNone) {
    root.write("data/a.tar", make_shard(0, 100));
    root.write("data/d/b.tar", make_shard(100, 5));
    prepare_folder(data, {.checksums = checksums});
  }
  std::string file(const std::string& name) const { return data + "/" + name; }
  void write(const std::string& name, const std::string& content) const {
    energon::write_file_atomically(file(name), energon::as_bytes(content));
  }
  OpenOptions options(CheckShards check_shards) const {
    return {.check_shards = check_shards, .cache_dir = root.file("cache")};
  }
  ShardSet open(CheckShards check_shards = CheckShards::kAtFirstRead) const {
    return open_split(data, options(check_shards));
  }
  std::shared_ptr<const ShardSummary> summary() const {
    const std::string meta = file(".nv-meta");
    return energon::load_shard_summary(meta, *energon::read_info_text(meta));
  }
};

bool is_unchecked(const ShardSet& set) {
  return std::none_of(set.shards.begin(), set.shards.end(),
                      [](const ShardFile& shard) { return shard.is_checked; });
}

bool is_checked(const ShardSet& set) {
  return set.check == nullptr &&
         std::all_of(set.shards.begin(), set.shards.end(),
                     [](const ShardFile& shard) { return shard.is_checked; });
}

// As another process finds the shard that `set` has, if it looks at it.
ShardFile looked_at(const ShardSet& set, std::size_t shard) {
  ShardFile file = set.check(set.shards[shard]);
  file.checksum_digest.reset();
  return file;
}

std::string sealed(std::string content) {
  const std::uint64_t digest = energon::xxh3_64(energon::as_bytes(content));
  return content.append(reinterpret_cast<const char*>(&digest), sizeof(digest));
}

}  // namespace

TEST_CASE("the summary of shards has the bytes of its documentation", "[io][formats][summary]") {
  const ShardSummary summary{.set_digest = 0x0102030405060708,
                             .shards = {{.record = {.name = "a.tar",
                                                    .size_bytes = 10240,
                                                    .mtime_ns = 1'700'000'000'000'000'000,
                                                    .header_digest = 0x1122334455667788,
                                                    .index_digest = 0x99aabbccddeeff00},
                                         .sample_count = 3,
                                         .end_offset = 6144,
                                         .has_checksums = true,
                                         .checksum_digest = 0x0f1e2d3c4b5a6978}}};
  const std::string bytes = summary.encode();
  const std::string expected(
      "EGNSUMM\n"
      "\x01\0\0\0\0\0\0\0"
      "\x08\x07\x06\x05\x04\x03\x02\x01"
      "\x01\0\0\0\0\0\0\0"
      "\x01\0\0\0\0\0\0\0"
      "\x00\x28\0\0\0\0\0\0"
      "\x00\x00\x2a\x36\xfe\x9c\x97\x17"
      "\x03\0\0\0\0\0\0\0"
      "\x00\x18\0\0\0\0\0\0"
      "\x88\x77\x66\x55\x44\x33\x22\x11"
      "\x00\xff\xee\xdd\xcc\xbb\xaa\x99"
      "\x78\x69\x5a\x4b\x3c\x2d\x1e\x0f"
      "\x05\0\0\0\0\0\0\0a.tar",
      12 * 8 + 13);
  CHECK(bytes == sealed(expected));
  CHECK(ShardSummary::parse(bytes, "x") == summary);
}

TEST_CASE("a damaged summary of shards is refused", "[io][formats][summary]") {
  const std::string bytes = ShardSummary{.shards = {{.record = {.name = "a.tar"}}, {}}}.encode();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(error_of([&] { ShardSummary::parse(bytes.substr(0, size), "x"); }).first ==
          ErrorCode::kCorruptData);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    CHECK(error_of([&] { ShardSummary::parse(flipped, "x"); }).first == ErrorCode::kCorruptData);
  }
  const auto changed = [&](std::size_t offset, char value) {
    std::string content = bytes.substr(0, bytes.size() - 8);
    content[offset] = value;
    return error_of([&] { ShardSummary::parse(sealed(content), "x"); });
  };
  CHECK(changed(8, 2).first == ErrorCode::kUnsupported);
  CHECK(contains(changed(3 * 8 + 6, 1).second, "more shards"));  // before memory is taken
  CHECK(contains(changed(7 * 8 + 7, '\xff').second, "a count that no shard can have"));
  CHECK(contains(changed(3 * 8, 1).second, "behind its last shard"));
}

TEST_CASE("a prepared dataset is opened by its summary alone", "[io][formats][summary]") {
  const Fixture fixture(GENERATE(Checksums::kNone, Checksums::kWrite));
  const ShardSet exact = fixture.open(CheckShards::kAtOpening);
  CHECK(is_checked(exact));
  const auto files = files_below(fixture.root.path());
  const ShardSet set = fixture.open();
  CHECK(is_unchecked(set));
  CHECK(files_below(fixture.root.path()) == files);
  CHECK(set.warnings.empty());
  REQUIRE(set.shards.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
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
  CHECK(error_of([&] { fixture.open(CheckShards::kAtOpening); }).first == ErrorCode::kNotFound);
}

TEST_CASE("opening by a summary costs no system calls per shard", "[io][formats][summary][fork]") {
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

TEST_CASE("what a shard lacks is the same error at the first read as at opening",
          "[io][formats][summary]") {
  const Fixture fixture(Checksums::kWrite);
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
  SECTION("its samples, all of them others") {
    rewrite(make_shard(500, 100), kLater);
    problem = "shard 'a.tar' is not the one that was prepared";
  }
  SECTION("its own index") {
    fs::copy_file(fixture.file("d/b.tar.idx"), tar + ".idx", fs::copy_options::overwrite_existing);
    problem = "shard 'a.tar': the index says";
  }
  SECTION("its checksums") {
    fs::remove(tar + ".xxh3");
    problem = "shard 'a.tar': the checksum file is missing";
  }
  const ShardSet set = fixture.open();
  REQUIRE(is_unchecked(set));
  const auto error = error_of([&] { set.check(set.shards[0]); });
  CHECK(contains(error.second, problem));
  CHECK(error == error_of([&] { fixture.open(CheckShards::kAtOpening); }));
  CHECK(looked_at(set, 1).name == "d/b.tar");
}

TEST_CASE("a copy with other times is opened by its summary", "[io][formats][summary]") {
  const Fixture fixture;
  fixture.write("a.tar", make_shard(0, 100));
  fs::last_write_time(fixture.file("a.tar"), fs::last_write_time(fixture.file("a.tar")) - kLater);
  const ShardSet set = fixture.open();
  CHECK(is_unchecked(set));
  CHECK(looked_at(set, 0) == fixture.open(CheckShards::kAtOpening).shards[0]);
}

TEST_CASE("a summary that does not fit counts as absent", "[io][formats][summary]") {
  const Fixture fixture;
  const std::string path = energon::shard_summary_path(fixture.file(".nv-meta"));
  bool is_ok = true;  // for lint
  SECTION("missing, as after an older prepare") { fs::remove(path); }
  SECTION("damaged") {
    change_byte(path, 60);
    is_ok = false;
  }
  SECTION("empty") {
    fs::resize_file(path, 0);
    is_ok = false;
  }
  SECTION("of another prepare") {
    const std::string old = read_file(path);
    prepare_folder(fixture.data, {.existing = Existing::kOverwrite});
    fixture.write(".nv-meta/shard_summary.bin", old);
  }
  SECTION("of another UUID") {
    fixture.write(".nv-meta/index.uuid", "00000000-0000-4000-8000-000000000000");
  }
  SECTION("of another .info.json") {
    fixture.write(".nv-meta/.info.json", read_file(fixture.file(".nv-meta/.info.json")) + "\n");
  }
  SECTION("without the record of shards") { fs::remove(fixture.file(".nv-meta/shard_record.bin")); }
  const ShardSet set = fixture.open();
  CHECK(is_checked(set));
  CHECK(set.shards == fixture.open(CheckShards::kAtOpening).shards);
  CHECK(energon::lint(fixture.data).ok() == is_ok);
}

TEST_CASE("a damaged record is an error also beside a summary", "[io][formats][summary]") {
  const Fixture fixture;
  change_byte(fixture.file(".nv-meta/shard_record.bin"), 60);
  CHECK(contains(error_of([&] { fixture.open(); }).second, "shard_record.bin"));
}

TEST_CASE("options that need a look at each shard get it", "[io][formats][summary]") {
  const Fixture fixture(Checksums::kWrite);
  OpenOptions options = fixture.options(CheckShards::kAtFirstRead);
  SECTION("broken shards are left out") { options.broken_shards = energon::BrokenShards::kSkip; }
  SECTION("tars are strict") { options.strictness = energon::ScanStrictness::kStrict; }
  SECTION("checksums are not needed") { options.needs_checksums = false; }
  CHECK(is_checked(open_split(fixture.data, options)));
}

TEST_CASE("compressed shards are looked at when they are opened", "[io][formats][summary]") {
  const TempDir root;
  root.write("data/a.tgz", gzip(make_shard(0, 3)));
  const OpenOptions options{.check_shards = CheckShards::kAtFirstRead,
                            .cache_dir = root.file("cache")};
  prepare_folder(root.file("data"), {.cache_dir = root.file("cache")});
  CHECK(is_checked(open_split(root.file("data"), options)));
  CHECK(energon::lint(root.file("data")).ok());
}

TEST_CASE("shards with excluded samples are looked at, the others are not",
          "[io][formats][summary]") {
  const Fixture fixture;
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

TEST_CASE("a tar without its end is a warning by the summary, too", "[io][formats][summary]") {
  const TempDir folder;
  const std::string tar = make_shard(0, 3);
  folder.write("a.tar", tar.substr(0, 3 * 2560));
  prepare_folder(folder.path());
  const ShardSet set = open_split(folder.path(), {.check_shards = CheckShards::kAtFirstRead});
  CHECK(is_unchecked(set));
  CHECK(set.warnings.size() == 1);
  CHECK(set.warnings == open_split(folder.path()).warnings);
}

TEST_CASE("an update leaves the summary that a whole prepare leaves", "[io][formats][summary]") {
  const Checksums checksums = GENERATE(Checksums::kNone, Checksums::kWrite);
  const Fixture fixture(checksums);
  fixture.write("z.tar", make_shard(200, 7));
  prepare_folder(fixture.data, {.existing = Existing::kUpdate, .checksums = checksums});
  const auto updated = fixture.summary();
  REQUIRE(updated);
  CHECK(is_unchecked(fixture.open()));
  prepare_folder(fixture.data, {.existing = Existing::kOverwrite, .checksums = checksums});
  CHECK(fixture.summary()->shards == updated->shards);
  CHECK(updated->shards.size() == 3);
}

TEST_CASE("lint finds a summary that contradicts the other files", "[io][formats][summary]") {
  const Fixture fixture(Checksums::kWrite);
  ShardSummary summary = *fixture.summary();
  CHECK(energon::lint(fixture.data).ok());
  SECTION("a count") { summary.shards[0].sample_count = 99; }
  SECTION("a record") { summary.shards[1].record.header_digest = 1; }
  SECTION("a name") { summary.shards[1].record.name = "d/c.tar"; }
  SECTION("an end") { summary.shards[0].end_offset += 512; }
  SECTION("a digest of checksums") { summary.shards[1].checksum_digest += 1; }
  SECTION("a shard less") { summary.shards.pop_back(); }
  fixture.write(".nv-meta/shard_summary.bin", summary.encode());
  CHECK(energon::lint(fixture.data).problems.size() == 1);
}
