#include "io/dataset/quarantine.h"

#include <sys/resource.h>

#include <cerrno>
#include <filesystem>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/dataset/dataset_folder.h"
#include "io/file.h"
#include "tests/io/shards.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using energon::BrokenShards;
using energon::ErrorCode;
using energon::open_split;
using energon::OpenOptions;
using energon::parse_quarantine;
using energon::SampleExclude;
using energon::ShardSet;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;
using Names = std::vector<std::string>;
using Excludes = std::vector<SampleExclude>;

namespace {

Names kept_names(const ShardSet& set) {
  Names names;
  for (const auto& shard : set.shards) {
    names.push_back(shard.name);
  }
  return names;
}

// Three shards of ten samples, s-0.tar (keys 000000 to 000009) to s-2.tar.
struct QuarantineFixture {
  TempDir root;
  std::string data = root.file("data");

  QuarantineFixture() {
    for (int i = 0; i < 3; ++i) {
      root.write(fmt::format("data/s-{}.tar", i), make_shard(10 * i, 10));
    }
  }
  std::string entry(const std::string& shard, const std::string& rest = "") const {
    return fmt::format(R"({{"time":"2026-01-01T00:00:00Z","dataset":"{}","shard":"{}"{},)"
                       R"("stage":"read","cause":"why not"}})"
                       "\n",
                       data, shard, rest);
  }
  OpenOptions options(const std::string& quarantine) const {
    OpenOptions options{.cache_dir = root.file("cache"), .index_threads = 1};
    options.exclude_files = {root.write("bad.jsonl", quarantine)};
    return options;
  }
  ShardSet open(const std::string& quarantine) const {
    return open_split(data, options(quarantine));
  }
  void truncate(const std::string& shard) const {
    std::filesystem::resize_file(data + "/" + shard, 5000);
  }
};

}  // namespace

TEST_CASE("quarantine lines list samples by index and key, or whole shards",
          "[formats][quarantine]") {
  const QuarantineFixture fixture;
  const auto quarantine = parse_quarantine(
      fixture.entry("s-0.tar", R"(,"index":3,"key":"000003","bytes":[512,1024])") +
          fixture.entry("s-1.tar", R"(,"key":"000012")") + fixture.entry("s-2.tar"),
      "q");
  REQUIRE(quarantine.entries.size() == 3);
  CHECK(quarantine.warnings.empty());
  CHECK(quarantine.entries[0].index == 3);
  CHECK(quarantine.entries[1].key == "000012");
  CHECK_FALSE(quarantine.entries[1].is_shard());
  CHECK(quarantine.entries[2].is_shard());
  CHECK(quarantine.entries[2].line == 3);
  CHECK(quarantine.entries[2].dataset_path == fixture.data);
}

TEST_CASE("a wrong quarantine line is an error with file, line and reason",
          "[formats][quarantine]") {
  const QuarantineFixture fixture;
  struct Case {
    std::string line;
    std::string reason;
  };
  for (const Case& with : {Case{R"({"dataset":"/d"})", "'shard' are required"},
                           Case{R"({"dataset":"/d","shard":7})", "'shard' must be a string"},
                           Case{R"({"dataset":"/d","shard":"a","indx":7})", "unknown field 'indx'"},
                           Case{R"({"dataset":"/d","shard":"a","index":-1})", "'index'"},
                           Case{R"({"dataset":"/d","shard":"a","index":1.5})", "'index'"},
                           Case{R"({"dataset":"/d","shard":"a","bytes":[1]})", "'bytes'"},
                           Case{R"({"dataset":"/d","shard":"a","cause":1})", "'cause'"},
                           Case{"", "not a JSON object"}, Case{"{]}", "not a JSON object"}}) {
    const auto [code, message] =
        error_of([&] { parse_quarantine(fixture.entry("a.tar") + with.line + "\n", "/q.jsonl"); });
    INFO(with.line << ": " << message);
    CHECK(code == ErrorCode::kInvalidArgument);
    CHECK(contains(message, "line 2"));
    CHECK(contains(message, "/q.jsonl"));
    CHECK(contains(message, with.reason));
  }
}

TEST_CASE("a quarantine line truncated by a crash is skipped with a warning",
          "[formats][quarantine]") {
  const QuarantineFixture fixture;
  const std::string line = fixture.entry("s-0.tar", R"(,"index":3)");
  for (std::size_t size = 1; size < line.size() - 2; ++size) {
    CAPTURE(size);
    const auto last = parse_quarantine(line + line.substr(0, size), "q");
    CHECK(last.entries.size() == 1);
    REQUIRE(last.warnings.size() == 1);
    CHECK(contains(last.warnings[0], "line 2"));
    // The next writer ends it.
    CHECK(parse_quarantine(line.substr(0, size) + "\n" + line, "q").entries.size() == 1);
  }
  CHECK(parse_quarantine(line + line.substr(0, line.size() - 1), "q").entries.size() == 2);
  CHECK(parse_quarantine("", "q").entries.empty());
}

TEST_CASE("quarantined samples and shards of plain tars and prepared datasets are skipped",
          "[formats][quarantine]") {
  const QuarantineFixture fixture;
  const std::string quarantine =
      fixture.entry("s-0.tar", R"(,"index":3,"key":"000003")") +
      fixture.entry("s-0.tar", R"(,"index":3)") + fixture.entry("s-0.tar", R"(,"key":"000007")") +
      fixture.entry("s-1.tar") + fixture.entry("s-1.tar", R"(,"key":"000011")") +
      fixture.entry("s-1.tar", R"(,"index":2)") + fixture.entry("s-2.tar", R"(,"index":99)");
  for (const bool is_prepared : {false, true}) {
    CAPTURE(is_prepared);
    if (is_prepared) {
      prepare_folder(fixture.data);
    }
    const ShardSet set = fixture.open(quarantine);
    CHECK(set.kind == (is_prepared ? "prepared" : "plain"));
    CHECK(kept_names(set) == Names{"s-0.tar", "s-1.tar", "s-2.tar"});
    Excludes expected = {{0, 3}, {0, 7}};
    for (std::int64_t sample = 0; sample < 10; ++sample) {
      expected.push_back({1, sample});
    }
    CHECK(set.excludes_in_place == expected);
    CHECK(set.excludes.empty());
    REQUIRE(set.warnings.size() == 1);
    CHECK(contains(set.warnings[0], "sample 99 of shard 's-2.tar'"));
  }
}

TEST_CASE("a quarantined shard need not exist, and quarantining all of them is an error",
          "[formats][quarantine]") {
  const QuarantineFixture fixture;
  prepare_folder(fixture.data);
  std::filesystem::remove(fixture.data + "/s-1.tar");
  CHECK(error_of([&] { fixture.open(""); }).first == ErrorCode::kNotFound);
  const ShardSet set = fixture.open(fixture.entry("s-1.tar"));
  CHECK(kept_names(set) == Names{"s-0.tar", "s-1.tar", "s-2.tar"});
  CHECK(set.shards[1].sample_count == 10);
  CHECK(set.excludes_in_place.size() == 10);
  CHECK(set.excludes.empty());
  CHECK(set.broken.empty());
  const std::string all =
      fixture.entry("s-0.tar") + fixture.entry("s-1.tar") + fixture.entry("s-2.tar");
  CHECK(contains(error_of([&] { fixture.open(all); }).second, "all 3 shards are quarantined"));
}

TEST_CASE("a quarantined plain tar that cannot be counted has no places", "[formats][quarantine]") {
  const QuarantineFixture fixture;
  fixture.truncate("s-1.tar");
  CHECK(error_of([&] { fixture.open(""); }).first == ErrorCode::kCorruptData);
  const ShardSet set = fixture.open(fixture.entry("s-1.tar"));
  CHECK(kept_names(set) == Names{"s-0.tar", "s-2.tar"});
  CHECK(set.excludes_in_place.empty());
}

TEST_CASE("a quarantine of another dataset is ignored, one through a link is not",
          "[formats][quarantine]") {
  const QuarantineFixture fixture;
  const auto entry = [](const std::string& dataset) {
    return fmt::format(R"({{"dataset":"{}","shard":"s-0.tar","index":1}})"
                       "\n",
                       dataset);
  };
  CHECK(fixture.open(entry(fixture.root.path()) + entry("/nowhere")).excludes_in_place.empty());
  std::filesystem::create_directory_symlink(fixture.data, fixture.root.file("link"));
  CHECK(fixture.open(entry(fixture.root.file("link"))).excludes_in_place == Excludes{{0, 1}});
}

TEST_CASE("a split file may name a quarantine file of the dataset's folder",
          "[formats][quarantine]") {
  const QuarantineFixture fixture;
  prepare_folder(fixture.data);
  const std::string split = "split_parts:\n  train:\n  - s-{0..2}.tar\nexclude:\n";
  fixture.root.write("data/.nv-meta/split.yaml", split + "- bad/found.jsonl\n- s-2.tar/000025\n");
  fixture.root.write("data/bad/found.jsonl", fixture.entry("s-0.tar", R"(,"index":3)"));
  const ShardSet set = fixture.open(fixture.entry("s-1.tar", R"(,"index":4)"));
  CHECK(set.excludes == Excludes{{0, 3}, {2, 5}});
  CHECK(set.excludes_in_place == Excludes{{1, 4}});
  CHECK(set.warnings.empty());
  std::filesystem::remove(fixture.data + "/bad/found.jsonl");
  CHECK(error_of([&] { fixture.open(""); }).first == ErrorCode::kNotFound);
}

TEST_CASE("on request, broken shards keep their place, and their samples are excluded",
          "[formats][quarantine]") {
  const QuarantineFixture fixture;
  fixture.open("");  // indexes the shards, which determines their sample counts
  OpenOptions options = fixture.options("");
  options.broken_shards = BrokenShards::kSkip;
  Excludes all_of_second;
  for (std::int64_t sample = 0; sample < 10; ++sample) {
    all_of_second.push_back({1, sample});
  }
  for (const bool is_prepared : {false, true}) {
    CAPTURE(is_prepared);
    if (is_prepared) {
      prepare_folder(fixture.data, {});
    }
    const std::string kept = fixture.root.file("kept.tar");
    std::filesystem::copy_file(fixture.data + "/s-1.tar", kept,
                               std::filesystem::copy_options::overwrite_existing);
    fixture.truncate("s-1.tar");
    CHECK(error_of([&] { fixture.open(""); }).first == ErrorCode::kCorruptData);
    const ShardSet set = open_split(fixture.data, options);
    CHECK(kept_names(set) == Names{"s-0.tar", "s-1.tar", "s-2.tar"});
    CHECK(set.shards[1].is_broken);
    CHECK(set.shards[1].sample_count == 10);
    CHECK(set.excludes == all_of_second);
    REQUIRE(set.broken.size() == 1);
    CHECK(set.broken[0].name == "s-1.tar");
    CHECK(set.broken[0].code == ErrorCode::kCorruptData);
    CHECK(contains(set.broken[0].cause, "s-1.tar"));
    REQUIRE(set.warnings.size() == 1);
    CHECK(contains(set.warnings[0], "'s-1.tar' is broken, its 10 samples are skipped"));
    // A sample of the shard that is also excluded is excluded without a lookup.
    OpenOptions besides = options;
    besides.exclude_files = {
        fixture.root.write("besides.jsonl", fixture.entry("s-1.tar", R"(,"index":3)") +
                                                fixture.entry("s-1.tar", R"(,"key":"000014")"))};
    CHECK(open_split(fixture.data, besides).excludes == all_of_second);
    std::filesystem::copy_file(kept, fixture.data + "/s-1.tar",
                               std::filesystem::copy_options::overwrite_existing);
  }
  for (const char* shard : {"s-0.tar", "s-1.tar", "s-2.tar"}) {
    fixture.truncate(shard);
  }
  CHECK(error_of([&] { open_split(fixture.data, options); }).first == ErrorCode::kCorruptData);
}

TEST_CASE("a broken shard whose number of samples is unknown cannot be skipped",
          "[formats][quarantine]") {
  const QuarantineFixture fixture;
  OpenOptions options = fixture.options("");
  options.broken_shards = BrokenShards::kSkip;
  fixture.truncate("s-1.tar");  // before it was ever indexed
  const auto [code, message] = error_of([&] { open_split(fixture.data, options); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "s-1.tar"));
  CHECK(contains(message, "cannot be skipped: its"));
  CHECK(contains(message, "energon prepare"));
  // For a prepared dataset, .info.json contains the count, even if the index is lost with the
  // shard.
  const QuarantineFixture prepared;
  prepare_folder(prepared.data, {});
  std::filesystem::remove(prepared.data + "/s-1.tar");
  std::filesystem::remove(prepared.data + "/s-1.tar.idx");
  OpenOptions skip = prepared.options("");
  skip.broken_shards = BrokenShards::kSkip;
  CHECK(open_split(prepared.data, skip).shards[1].sample_count == 10);
}

TEST_CASE("a system failure is an error, not a broken shard", "[formats][quarantine]") {
  const QuarantineFixture fixture;
  prepare_folder(fixture.data, {});
  OpenOptions options = fixture.options("");
  options.broken_shards = BrokenShards::kSkip;
  SECTION("too many open files") {
    if (ENERGON_ADDRESS_SANITIZER) {
      return energon::testing::skip_case("a sanitizer needs descriptors, too");
    }
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
    options.progress = [&](const energon::OpenProgress&) { ::setrlimit(RLIMIT_NOFILE, &none); };
    const auto [code, message] = error_of([&] { open_split(fixture.data, options); });
    ::setrlimit(RLIMIT_NOFILE, &limit);
    CHECK(code == ErrorCode::kIo);
    CHECK(contains(message, "Too many open files"));
  }
  SECTION("but a folder in place of the index is the shard's fault") {
    std::filesystem::remove(fixture.data + "/s-1.tar.idx");
    std::filesystem::create_directory(fixture.data + "/s-1.tar.idx");
    CHECK(open_split(fixture.data, options).broken.size() == 1);
  }
}
