#include "io/dataset/dataset_folder.h"

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/tar_index.h"
#include "io/lint/lint.h"
#include "tests/io/shards.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::open_split;
using energon::OpenOptions;
using energon::SampleExclude;
using energon::ShardSet;
using energon::testing::change_byte;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::gzip;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;
using Names = std::vector<std::string>;

namespace {

// A folder of shards next to a cache folder.
struct FolderFixture {
  TempDir root;
  std::string data = root.file("data");

  std::string write(const std::string& name, const std::string& content) const {
    return root.write("data/" + name, content);
  }
  OpenOptions options(const std::string& part = "train") const {
    return {.split_part = part, .cache_dir = root.file("cache")};
  }
  ShardSet open(const std::string& part = "train") const { return open_split(data, options(part)); }
  std::pair<ErrorCode, std::string> open_error(const std::string& part = "train") const {
    return error_of([&] { open(part); });
  }
  // Shards parts/data-0.tar (samples 0–29) and parts/data-1.tar (30–49), prepared.
  void write_prepared() const {
    write("parts/data-0.tar", make_shard(0, 30));
    write("parts/data-1.tar", make_shard(30, 20));
    prepare_folder(data);
  }
};

Names names_of(const ShardSet& set) {
  Names names;
  for (const auto& shard : set.shards) {
    names.push_back(shard.name);
  }
  return names;
}

std::vector<std::int64_t> excluded_samples(const ShardSet& set) {
  std::vector<std::int64_t> samples;
  for (const SampleExclude& exclude : set.excludes) {
    samples.push_back(exclude.sample);
  }
  return samples;
}

}  // namespace

TEST_CASE("a prepared dataset opens with names, counts and sizes", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  const ShardSet set = fixture.open();
  CHECK(set.kind == "prepared");
  CHECK(set.dataset_path == fixture.data);
  CHECK(names_of(set) == Names{"parts/data-0.tar", "parts/data-1.tar"});
  CHECK(set.shards[0].sample_count == 30);
  CHECK(set.shards[1].tar_size == make_shard(30, 20).size());
  CHECK(set.shards[0].tar_path == fixture.data + "/parts/data-0.tar");
  CHECK(set.shards[0].index_path == fixture.data + "/parts/data-0.tar.idx");
  CHECK(set.shards[0].checksum_path.empty());
  CHECK(set.excludes.empty());
  CHECK(set.warnings.empty());
  CHECK_FALSE(std::filesystem::exists(fixture.root.file("cache")));
}

TEST_CASE("excluded shards are removed and excluded samples become positions",
          "[io][formats][open]") {
  const bool with_sqlite = GENERATE(true, false);
  const FolderFixture fixture;
  fixture.write_prepared();
  fixture.write(".nv-meta/split.yaml",
                "split_parts:\n  train:\n  - parts/data-{0..1}.tar\n"
                "exclude: [parts/data-0.tar, 'parts/data-1.tar/00003{5..9}']\n");
  if (!with_sqlite) {
    std::filesystem::remove(fixture.data + "/.nv-meta/index.sqlite");
  }
  const ShardSet set = fixture.open();
  CHECK(names_of(set) == Names{"parts/data-1.tar"});
  // Keys 30–49 are samples 0–19; the keys 30–34 and 40–49 remain.
  CHECK(excluded_samples(set) == std::vector<std::int64_t>{5, 6, 7, 8, 9});
  CHECK(set.warnings.empty());
}

TEST_CASE("a database with the excluded sample at a different place is refused",
          "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  // Combines the database and the shards of two folders whose samples have different orders.
  const TempDir other;
  other.write("parts/data-0.tar", make_shard(0, 30));
  other.write("parts/data-1.tar", make_shard(31, 19));
  prepare_folder(other.path());
  fixture.write(".nv-meta/index.sqlite", energon::read_file(other.file(".nv-meta/index.sqlite")));
  fixture.write(".nv-meta/split.yaml",
                "split_parts: {train: [parts/data-1.tar]}\nexclude: [parts/data-1.tar/000035]\n");
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "index 4 of shard 'parts/data-1.tar', but that sample is '000034'"));
}

TEST_CASE("exclude entries that match nothing are warnings", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  fixture.write(".nv-meta/split.yaml",
                "split_parts: {train: [parts/data-0.tar]}\n"
                "exclude: [parts/data-1.tar, parts/data-1.tar/000030, nobody, x.tar/1,\n"
                "  parts/data-0.tar/000031, parts/data-0.tar/000003]\n");
  const ShardSet set = fixture.open();
  CHECK(excluded_samples(set) == std::vector<std::int64_t>{3});
  CHECK(set.warnings.size() == 3);
}

TEST_CASE("an unknown split part is an error that lists the known ones", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  const auto [code, message] = fixture.open_error("val");
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "known: train"));
}

TEST_CASE("the missing piece of a prepared dataset is named with the command to run",
          "[io][formats][open]") {
  const std::string missing = GENERATE(as<std::string>{}, ".nv-meta/.info.json",
                                       ".nv-meta/split.yaml", "parts/data-1.tar.idx");
  const FolderFixture fixture;
  fixture.write_prepared();
  std::filesystem::remove(fixture.data + "/" + missing);
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, missing));
  CHECK(contains(message, "energon prepare " + fixture.data));
}

TEST_CASE("a missing shard is named", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  std::filesystem::remove(fixture.data + "/parts/data-1.tar");
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kNotFound);
  CHECK(contains(message, "parts/data-1.tar"));
}

TEST_CASE("an error about different counts names both", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  fixture.write(".nv-meta/.info.json",
                R"({"shard_counts": {"parts/data-0.tar": 30, "parts/data-1.tar": 21}})");
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "21"));
  CHECK(contains(message, "20"));
}

TEST_CASE("a shard truncated after it was prepared is refused at opening", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  std::filesystem::resize_file(fixture.data + "/parts/data-1.tar", 5000);
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "parts/data-1.tar"));
  CHECK(contains(message, "truncated"));
}

TEST_CASE("a shard that grew after it was prepared is refused at opening", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  fixture.write("parts/data-1.tar", make_shard(30, 22));
  CHECK(fixture.open_error().first == ErrorCode::kCorruptData);
}

TEST_CASE("swapped indices of shards with different counts are refused", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  const std::string a = fixture.data + "/parts/data-0.tar.idx";
  const std::string b = fixture.data + "/parts/data-1.tar.idx";
  std::filesystem::rename(a, a + ".x");
  std::filesystem::rename(b, a);
  std::filesystem::rename(a + ".x", b);
  CHECK(fixture.open_error().first == ErrorCode::kCorruptData);
}

TEST_CASE("shard names that lead out of the folder are refused", "[io][formats][open]") {
  const std::string name =
      GENERATE(as<std::string>{}, "../../etc/passwd", "/etc/passwd", "a/../../b");
  const FolderFixture fixture;
  fixture.write_prepared();
  fixture.write(".nv-meta/.info.json", "{\"shard_counts\": {\"" + name + "\": 1}}");
  fixture.write(".nv-meta/split.yaml", "split_parts: {train: ['" + name + "']}");
  CHECK(contains(fixture.open_error().second, "leads out of"));
}

TEST_CASE("plain tars are indexed next to themselves, sorted, for any split part",
          "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write("b/1.tar", make_shard(10, 5));
  fixture.write("a.tar", make_shard(0, 3));
  fixture.write("notes.txt", "x");
  const ShardSet set = fixture.open("whatever");
  CHECK(set.kind == "plain");
  CHECK(names_of(set) == Names{"a.tar", "b/1.tar"});
  CHECK(set.shards[1].sample_count == 5);
  CHECK(set.shards[1].index_path == fixture.data + "/b/1.tar.idx");
  CHECK(energon::TarIndex::load(set.shards[0].index_path, set.shards[0].tar_size).range(1).offset ==
        2560);
}

TEST_CASE("paths are absolute, however the folder is specified", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write("plain/a.tar", make_shard(0, 3));
  const ShardSet plain = open_split(fixture.data + "/./plain//", fixture.options());
  CHECK(plain.dataset_path == fixture.data + "/plain");
  CHECK(plain.shards[0].tar_path == fixture.data + "/plain/a.tar");
  prepare_folder(fixture.data + "/plain");
  const ShardSet prepared = open_split(fixture.data + "/plain/", fixture.options());
  CHECK(prepared.dataset_path == plain.dataset_path);
  CHECK(prepared.shards[0].tar_path == plain.shards[0].tar_path);
}

TEST_CASE("a tar without an end is a warning at every opening, or an error",
          "[io][formats][open]") {
  const FolderFixture fixture;
  const bool is_prepared = GENERATE(false, true);
  const std::string cut = make_shard(0, 3);
  fixture.write("a.tar", cut.substr(0, cut.size() - 1024));
  fixture.write("b.tar", make_shard(3, 3));
  if (is_prepared) {
    CHECK(prepare_folder(fixture.data).warnings.size() == 1);
  }
  OpenOptions options = fixture.options();
  options.strictness = energon::ScanStrictness::kStrict;
  for (int time = 0; time < 2; ++time) {  // the second time, there is an index
    CAPTURE(time);
    const auto [code, message] = error_of([&] { open_split(fixture.data, options); });
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, "no end-of-archive block"));
    CHECK(contains(message, "a.tar"));
    const ShardSet set = fixture.open();
    REQUIRE(set.warnings.size() == 1);
    CHECK(contains(set.warnings[0], "shard 'a.tar': no end-of-archive block"));
  }
  CHECK(error_of([&] {
          prepare_folder(fixture.data, {.existing = energon::Existing::kOverwrite,
                                        .strictness = energon::ScanStrictness::kStrict});
        }).first == ErrorCode::kCorruptData);
}

TEST_CASE("many shards without an end are counted", "[io][formats][open]") {
  const FolderFixture fixture;
  for (int i = 0; i < 30; ++i) {
    const std::string tar = make_shard(10 * i, 1);
    fixture.write("s-" + std::to_string(i) + ".tar", tar.substr(0, tar.size() - 1024));
  }
  const ShardSet set = fixture.open();
  CHECK(set.warnings.size() == 21);
  CHECK(set.warnings.back() == "10 more shard warnings");
}

TEST_CASE("data after the end of an indexed tar is an error if tars are strict",
          "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write("a.tar", make_shard(0, 3) + "trailing");
  CHECK(contains(fixture.open().warnings.at(0), "after the end"));
  OpenOptions options = fixture.options();
  options.strictness = energon::ScanStrictness::kStrict;
  CHECK(contains(error_of([&] { open_split(fixture.data, options); }).second, "after the end"));
}

TEST_CASE("plain tars are named individually, by a pattern or by a list", "[io][formats][open]") {
  const FolderFixture fixture;
  for (int i = 0; i < 3; ++i) {
    fixture.write("s-" + std::to_string(i) + ".tar", make_shard(10 * i, 4));
  }
  fixture.write("{x}.tar", make_shard(100, 1));
  const auto open = [&](const std::string& path) { return open_split(path, fixture.options()); };
  CHECK(names_of(open(fixture.data + "/s-1.tar")) == Names{"s-1.tar"});
  CHECK(names_of(open(fixture.data + "/s-{2..0}.tar")) == Names{"s-2.tar", "s-1.tar", "s-0.tar"});
  CHECK(names_of(open(fixture.data + "/{x}.tar")) == Names{"{x}.tar"});
  const ShardSet list =
      open_split(std::vector<std::string>{fixture.data + "/s-2.tar", fixture.data + "/s-0.tar"},
                 fixture.options());
  CHECK(names_of(list) == Names{"s-2.tar", "s-0.tar"});
  CHECK(list.dataset_path == fixture.data);
}

TEST_CASE("a shard listed twice is a warning", "[io][formats][open]") {
  const FolderFixture fixture;
  const std::string path = fixture.write("a.tar", make_shard(0, 3));
  const ShardSet set = open_split(std::vector<std::string>{path, path}, fixture.options());
  CHECK(set.shards.size() == 2);
  CHECK(set.warnings.size() == 1);
}

TEST_CASE("paths without a dataset are refused", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write("data.jsonl", "{}");
  fixture.write("mds.yaml", "x: 1");
  fixture.write("notes.txt", "x");
  const auto code = [&](const std::string& name) {
    return error_of([&] { open_split(fixture.data + name, fixture.options()); }).first;
  };
  CHECK(code("") == ErrorCode::kNotFound);
  CHECK(code("/absent") == ErrorCode::kNotFound);
  CHECK(code("/absent-{0..3}.tar") == ErrorCode::kNotFound);
  CHECK(code("/data.jsonl") == ErrorCode::kUnsupported);
  CHECK(code("/mds.yaml") == ErrorCode::kUnsupported);
  CHECK(code("/notes.txt") == ErrorCode::kInvalidArgument);
  CHECK(code("/{0..99999999999}.tar") == ErrorCode::kResourceExhausted);
  fixture.write("empty.tar", std::string(1024, '\0'));
  CHECK(code("/empty.tar") == ErrorCode::kInvalidArgument);
}

TEST_CASE("all bad shards are counted in the error", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write("a.tar", make_shard(0, 3));
  fixture.write("b.tar", std::string(600, 'x'));
  fixture.write("c.tar", make_shard(3, 3).substr(0, 3000));
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "b.tar"));
  CHECK(contains(message, "1 more"));
}

TEST_CASE("a compressed shard is expanded once and read like any other", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write("a.tgz", gzip(make_shard(0, 3)));
  fixture.write("a.tar", make_shard(3, 4));
  const ShardSet set = fixture.open();
  CHECK(names_of(set) == Names{"a.tar", "a.tgz"});
  CHECK(set.shards[1].sample_count == 3);
  CHECK(energon::read_file(set.shards[1].tar_path) == make_shard(0, 3));
  const auto identity = set.shards[1].tar_identity;
  CHECK(fixture.open().shards[1].tar_identity == identity);
}

TEST_CASE("a prepared compressed shard opens", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write("a.tgz", gzip(make_shard(0, 3)));
  prepare_folder(fixture.data, {.cache_dir = fixture.root.file("cache")});
  const ShardSet set = fixture.open();
  CHECK(set.shards[0].index_path == fixture.data + "/a.tar.idx");
  CHECK(set.shards[0].sample_count == 3);
}

TEST_CASE("the error about a truncated expanded copy names its shard and what to do",
          "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write("a.tgz", gzip(make_shard(0, 3)));
  const bool is_prepared = GENERATE(false, true);
  const energon::PrepareOptions options{.cache_dir = fixture.root.file("cache")};
  if (is_prepared) {
    prepare_folder(fixture.data, options);
  }
  const std::string copy = fixture.open().shards[0].tar_path;
  std::filesystem::resize_file(copy, 3000);
  const std::string expected = fmt::format(
      "read from '{}', the expanded copy of '{}': if the shard is intact, remove the copy, and it "
      "will be created again",
      copy, fixture.data + "/a.tgz");
  const auto [code, message] = error_of([&] { fixture.open(); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, expected));
  if (!is_prepared) {
    CHECK(contains(error_of([&] { prepare_folder(fixture.data, options); }).second, expected));
  }
  const energon::LintReport report =
      energon::lint(fixture.data, {.cache_dir = fixture.root.file("cache")});
  REQUIRE_FALSE(report.problems.empty());
  CHECK(contains(report.problems[0].message, expected));
  REQUIRE(std::filesystem::remove(copy));
  CHECK(fixture.open().shards[0].sample_count == 3);
}

TEST_CASE("progress is reported per shard", "[io][formats][open]") {
  const FolderFixture fixture;
  fixture.write_prepared();
  std::vector<std::int64_t> done;
  OpenOptions options = fixture.options();
  options.index_threads = 3;
  options.progress = [&](const energon::OpenProgress& progress) {
    done.push_back(progress.shards_done);
    CHECK(progress.shards_total == 2);
  };
  open_split(fixture.data, options);
  CHECK(done == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("real shards open", "[io][formats][open]") {
  const auto path = energon::testing::shared_data("webdataset");
  if (!path) {
    return energon::testing::skipped();
  }
  const FolderFixture fixture;
  for (const char* name : {"sample.tgz", "testgz.tar", "tendata.tar"}) {
    fixture.write(name, energon::read_file(*path + "/" + name));
  }
  const ShardSet set = fixture.open();
  CHECK(names_of(set) == Names{"sample.tgz", "tendata.tar", "testgz.tar"});
  CHECK(set.shards[0].sample_count == 90);
  CHECK(set.shards[1].sample_count == 100);
  CHECK(set.shards[2].sample_count == 1000);
}
