#include "io/prepare/prepare_join.h"

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sqlite3.h>

#include "io/dataset/dataset_folder.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/tar_index.h"
#include "io/recipe/join_index.h"
#include "io/recipe/recipe.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::JoinFiles;
using energon::JoinIndex;
using energon::JoinReport;
using energon::JoinRow;
using energon::LeafReference;
using energon::load_recipe;
using energon::locate_join;
using energon::MetadatasetReport;
using energon::open_join_index;
using energon::prepare_jsonl;
using energon::prepare_metadataset;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::TempDir;
using Names = std::vector<std::string>;

namespace {

// Two datasets with the keys 000000 to 000054: `one` in six shards, `two` in two, the later keys
// first.
struct Fixture {
  Fixture() {
    for (int i = 0; i < 6; ++i) {
      folder.write(fmt::format("one/parts/data-{}.tar", i), make_shard(10 * i, i == 5 ? 5 : 10));
    }
    folder.write("two/parts/a.tar", make_shard(30, 25));
    folder.write("two/parts/b.tar", make_shard(0, 30));
    prepare_folder(folder.file("one"));
    prepare_folder(folder.file("two"));
  }

  void split(const std::string& dataset, const std::string& yaml) const {
    folder.write(dataset + "/.nv-meta/split.yaml", yaml);
  }

  // Writes m.yaml with a join of these two in its split "train".
  void join(const std::string& second = "path: two", const std::string& first = "path: one") const {
    write_splits(fmt::format("train: {}", join_of(first, second)));
  }
  static std::string join_of(const std::string& first, const std::string& second) {
    return fmt::format("{{join: [{{{}}}, {{{}}}], joiner: {{__class__: C}}}}", first, second);
  }
  void write_splits(const std::string& splits) const {
    folder.write("m.yaml", fmt::format("__class__: MetadatasetV2\nsplits: {{{}}}", splits));
  }

  MetadatasetReport prepare() const { return prepare_metadataset(path); }
  std::string prepare_error(ErrorCode expected = ErrorCode::kInvalidArgument) const {
    const auto [code, message] = error_of([&] { prepare(); });
    CHECK(code == expected);
    return message;
  }
  LeafReference leaf(const std::string& split = "train") const {
    return load_recipe(path, split).leaves.at(0);
  }
  JoinIndex open(const std::string& split = "train") const {
    const LeafReference join = leaf(split);
    return open_join_index(locate_join(join), join);
  }
  std::size_t cache_files() const { return files_below(path + ".cache").size(); }

  // The keys at a place of all rows; "-" where there is none.
  Names keys(std::size_t column, const std::string& split = "train") const {
    const JoinFiles files = locate_join(leaf(split));
    const JoinIndex index = open(split);
    Names keys;
    for (std::int64_t i = 0; i < index.row_count(); ++i) {
      const auto place = index.row(i).at(column);
      keys.push_back(place ? key_at(files.sources.at(column), *place) : "-");
    }
    return keys;
  }

  TempDir folder;
  std::string path = folder.file("m.yaml");

 private:
  // The content of a sample's first part is its key.
  static std::string key_at(const energon::JoinSource& source, const energon::JoinPlace& place) {
    const energon::FileSource tar(source.dataset_path + "/" +
                                  source.shards.at(static_cast<std::size_t>(place.shard)));
    std::string bytes(place.bytes.size, '\0');
    tar.read_at(place.bytes.offset, std::as_writable_bytes(std::span(bytes)));
    CHECK(place.bytes.size == 2560);  // two headers and three blocks of data
    return bytes.substr(512, 6);
  }
};

Names numbers(int first, int end) {
  Names keys;
  for (int i = first; i < end; ++i) {
    keys.push_back(fmt::format("{:06d}", i));
  }
  return keys;
}

Names operator+(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("samples are joined by key in the order of the first dataset",
          "[io][formats][join][prepare]") {
  const Fixture f;
  f.join();
  const MetadatasetReport report = f.prepare();
  REQUIRE(report.joins.size() == 1);
  CHECK(report.joins[0].rows == 55);
  CHECK(report.joins[0].primary_samples == 55);
  CHECK(report.joins[0].missing == std::vector<std::int64_t>{0, 0});
  CHECK(f.keys(0) == numbers(0, 55));
  CHECK(f.keys(1) == numbers(0, 55));
  f.join("path: one", "path: two");
  f.prepare();
  CHECK(f.keys(0) == numbers(30, 55) + numbers(0, 30));
  CHECK(f.keys(1) == f.keys(0));
}

TEST_CASE("rows follow the split part, and shards count before exclusion",
          "[io][formats][join][prepare]") {
  const Fixture f;
  f.split("one",
          "split_parts: {train: ['parts/data-{4,3}.tar', parts/data-0.tar, parts/data-1.tar]}\n"
          "exclude: [parts/data-3.tar]\n");
  f.join();
  f.prepare();
  CHECK(f.keys(0) == numbers(40, 50) + numbers(0, 20));
  CHECK(f.open().row(10).at(0)->shard == 2);
  const JoinFiles files = locate_join(f.leaf());
  CHECK(files.sources.at(0).shards.at(1) == "parts/data-3.tar");
  CHECK(files.sources.at(0).is_shard_excluded(1));
  CHECK_FALSE(files.sources.at(0).is_shard_excluded(0));
}

TEST_CASE("excluded shards and samples of all datasets leave 39 of 55",
          "[io][formats][join][prepare]") {
  const Fixture f;
  f.split("one",
          "split_parts: {train: ['parts/data-{0..5}.tar']}\n"
          "exclude: [parts/data-0.tar, 'parts/data-1.tar/00001{5..9}']\n");
  f.split("two", "split_parts: {train: ['parts/{a,b}.tar']}\nexclude: [parts/a.tar/000040]\n");
  f.join("path: two, nonmatch: skip");
  const JoinReport report = f.prepare().joins.at(0);
  CHECK(report.rows == 39);
  CHECK(report.primary_samples == 40);
  const Names expected = numbers(10, 15) + numbers(20, 40) + numbers(41, 55);
  CHECK(f.keys(0) == expected);
  CHECK(f.keys(1) == expected);
}

TEST_CASE("samples without a match are an error, skipped or empty",
          "[io][formats][join][prepare]") {
  const Fixture f;
  f.split("two", "split_parts: {train: [parts/a.tar, parts/b.tar]}\nexclude: [parts/b.tar]\n");
  SECTION("error") {
    f.join();
    const std::string message = f.prepare_error();
    CHECK(contains(
        message,
        fmt::format(
            "30 of the 55 samples of {} have no match in this dataset: '000000', "
            "'000001', '000002', '000003', '000004' …; if this is intended, set nonmatch: skip",
            f.folder.file("one"))));
    CHECK(contains(message, "[path: " + f.folder.file("two")));
    CHECK(f.cache_files() == 0);
  }
  SECTION("skip") {
    f.join("path: two, nonmatch: skip");
    CHECK(f.prepare().joins.at(0).rows == 25);
    CHECK(f.keys(1) == numbers(30, 55));
  }
  SECTION("none") {
    f.join("path: two, nonmatch: none");
    const JoinReport report = f.prepare().joins.at(0);
    CHECK(report.rows == 55);
    CHECK(report.missing == std::vector<std::int64_t>{0, 30});
    CHECK(f.keys(0) == numbers(0, 55));
    CHECK(f.keys(1) == Names(30, "-") + numbers(30, 55));
  }
}

TEST_CASE("a sample that one dataset skips is not an error in another",
          "[io][formats][join][prepare]") {
  const Fixture f;
  f.folder.write("three/x.tar", make_shard(0, 20));
  prepare_folder(f.folder.file("three"));
  f.split("two", "split_parts: {train: ['parts/{a,b}.tar']}\nexclude: [parts/a.tar]\n");
  f.write_splits(
      "train: {join: {x: {path: one}, y: {path: two}, z: {path: three, nonmatch: skip}}, "
      "joiner: {__class__: C}}");
  CHECK(f.prepare().joins.at(0).rows == 20);
}

TEST_CASE("a match outside of the split part is an error", "[io][formats][join][prepare]") {
  const Fixture f;
  f.split("two", "split_parts: {train: [parts/b.tar]}\nexclude: []\n");
  f.join("path: two, nonmatch: skip");
  CHECK(contains(f.prepare_error(),
                 "in a shard (parts/a.tar) that does not belong to its split part 'train'"));
  CHECK(contains(f.prepare_error(), "sample: 000030"));
}

TEST_CASE("a duplicate key is an error", "[io][formats][join][prepare]") {
  const Fixture f;
  f.join();
  // Only a foreign database can have duplicates.
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(f.folder.file("two/.nv-meta/index.sqlite").c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db,
                       "CREATE TABLE copy AS SELECT * FROM samples; DROP TABLE samples;"
                       "ALTER TABLE copy RENAME TO samples;"
                       "UPDATE samples SET sample_key = '000007' WHERE sample_key = '000009'",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  CHECK(contains(f.prepare_error(ErrorCode::kCorruptData),
                 "more than one sample has the key '000007'"));
}

TEST_CASE("a changed metadataset must be prepared again and leaves exactly two files",
          "[io][formats][join][prepare]") {
  const Fixture f;
  const std::string other =
      Fixture::join_of("path: two, split_part: train", "path: one, split_part: train");
  f.write_splits("train: " + Fixture::join_of("path: one", "path: two") + ", val: " + other);
  CHECK(f.prepare().joins.size() == 2);
  CHECK(f.cache_files() == 2);

  f.write_splits("train: " + Fixture::join_of("path: one", "path: two, nonmatch: skip") +
                 ", val: " + other);
  const auto [code, message] = error_of([&] { f.open(); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message,
                 "the join is not prepared, or the metadataset or one of its datasets has changed "
                 "since; run: energon prepare " +
                     f.path));
  CHECK(f.open("val").row_count() == 55);
  f.folder.write("m.yaml.cache/mine.txt", "stays");
  CHECK(f.prepare().removed.size() == 1);
  CHECK(f.open().row_count() == 55);
  std::filesystem::remove(f.folder.file("m.yaml.cache/mine.txt"));
  CHECK(f.cache_files() == 2);

  prepare_folder(f.folder.file("two"), {.existing = energon::Existing::kOverwrite});
  CHECK(error_of([&] { f.open(); }).first == ErrorCode::kInvalidArgument);
  CHECK(f.prepare().removed.size() == 2);
  CHECK(f.open().row_count() == 55);
}

TEST_CASE("a join index truncated by whole rows is an error", "[io][formats][join][prepare]") {
  const Fixture f;
  const std::string nonmatch = GENERATE("error", "none", "skip");
  const bool has_excludes = GENERATE(false, true);
  if (has_excludes) {
    f.split("one",
            "split_parts: {train: ['parts/data-{0..5}.tar']}\n"
            "exclude: ['parts/data-0.tar/00000{3..4}', parts/data-0.tar/absent, "
            "parts/data-1.tar, parts/data-1.tar/000012]\n");
  }
  f.join("path: two, nonmatch: " + nonmatch);
  f.prepare();
  CHECK(f.open().row_count() == (has_excludes ? 43 : 55));
  const std::string index = f.path + ".cache/" + files_below(f.path + ".cache").at(0);
  constexpr std::uintmax_t kRowBytes = 48;
  std::filesystem::resize_file(index, std::filesystem::file_size(index) - 3 * kRowBytes);
  if (nonmatch == "skip") {
    CHECK(f.open().row_count() == (has_excludes ? 40 : 52));  // undetected
    return;
  }
  const auto [code, message] = error_of([&] { f.open(); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, fmt::format("the join index has {} rows, but the split part 'train' of "
                                      "the first dataset has {} samples that are not excluded",
                                      has_excludes ? 40 : 52, has_excludes ? 43 : 55)));
  CHECK(contains(message, "run: energon prepare " + f.path + " [path: " + index));
}

TEST_CASE("the same datasets joined in two splits have two indices",
          "[io][formats][join][prepare]") {
  const Fixture f;
  f.split("one",
          "split_parts: {train: ['parts/data-{0..3}.tar'], val: ['parts/data-{4..5}.tar']}\n");
  f.split("two", "split_parts: {train: ['parts/{a,b}.tar'], val: ['parts/{a,b}.tar']}\n");
  const std::string join = Fixture::join_of("path: one", "path: two");
  f.write_splits(fmt::format("train: {0}, val: {0}", join));
  CHECK(f.prepare().joins.size() == 2);
  CHECK(f.keys(1, "train") == numbers(0, 40));
  CHECK(f.keys(1, "val") == numbers(40, 55));
  // A single join has Energon's name, so the previous index is not found.
  f.write_splits("val: " + join);
  CHECK(error_of([&] { f.open("val"); }).first == ErrorCode::kInvalidArgument);
  f.prepare();
  CHECK(f.keys(1, "val") == numbers(40, 55));
  CHECK(f.cache_files() == 1);
}

TEST_CASE("joins of referenced metadatasets are stored in their own cache",
          "[io][formats][join][prepare]") {
  const Fixture f;
  f.join();
  f.folder.write("outer/o.yaml",
                 "__class__: MetadatasetV2\nsplits: {x: {blend: [{path: ../m.yaml, split_part: "
                 "train}, {path: ../one, split_part: train}]}}");
  const std::string outer = f.folder.file("outer/o.yaml");
  CHECK(prepare_metadataset(outer).joins.size() == 1);
  CHECK(f.open().row_count() == 55);
  CHECK_FALSE(std::filesystem::exists(outer + ".cache"));
}

TEST_CASE("a metadataset without joins needs no preparation", "[io][formats][join][prepare]") {
  const Fixture f;
  f.folder.write("m.yaml", "splits: {train: {datasets: [{path: one}]}}");
  CHECK(f.prepare().joins.empty());
  CHECK_FALSE(std::filesystem::exists(f.path + ".cache"));
}

TEST_CASE("datasets that are not prepared for joins are named with the command to run",
          "[io][formats][join][prepare]") {
  const Fixture f;
  f.join();
  const std::string two = f.folder.file("two");
  SECTION("no UUID") {
    std::filesystem::remove(two + "/.nv-meta/index.uuid");
    CHECK(contains(f.prepare_error(),
                   ".nv-meta/index.uuid is missing; run: energon prepare "
                   "--force-overwrite " +
                       two));
  }
  SECTION("no database") {
    std::filesystem::remove(two + "/.nv-meta/index.sqlite");
    CHECK(contains(f.prepare_error(), ".nv-meta/index.sqlite is missing"));
  }
  SECTION("no such part") {
    f.join("path: two, split_part: other");
    CHECK(contains(f.prepare_error(), "unknown split part 'other'; known: train"));
  }
  SECTION("a shard twice") {
    f.split("two", "split_parts: {train: [parts/a.tar, 'parts/{a,b}.tar']}\n");
    CHECK(contains(f.prepare_error(), "lists the shard 'parts/a.tar' twice"));
  }
  SECTION("an unknown shard") {
    f.split("two", "split_parts: {train: [parts/c.tar]}\n");
    CHECK(contains(f.prepare_error(), "'parts/c.tar', which is not in .info.json"));
  }
}

TEST_CASE("a prepare that is stopped or disturbed keeps the existing index",
          "[io][formats][join][prepare]") {
  const Fixture f;
  f.join();
  f.prepare();
  std::stop_source stop;
  stop.request_stop();
  CHECK(error_of([&] { prepare_metadataset(f.path, stop.get_token()); }).first ==
        ErrorCode::kCancelled);
  CHECK(f.open().row_count() == 55);
  const energon::UniqueFd other(::open((f.path + ".cache").c_str(), O_RDONLY | O_DIRECTORY));
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  CHECK(contains(f.prepare_error(), "another process is preparing this metadataset"));
}

TEST_CASE("a JSONL file is prepared", "[io][formats][jsonl][prepare]") {
  const TempDir folder;
  std::string content = "\n";
  for (int i = 0; i < 10; ++i) {
    content += fmt::format("{{\"i\": {}}}\n{}", i, i % 4 == 0 ? "\n  \n" : "");
  }
  CHECK(prepare_jsonl(folder.write("x.jsonl", content)).samples == 10);
  CHECK(energon::read_file(folder.file("x.jsonl.idx")).size() == 11 * 8);
  CHECK(prepare_jsonl(folder.file("x.jsonl")).warnings.empty());
  const auto report = prepare_jsonl(folder.write("x.jsonl", content.substr(0, 10)));
  CHECK(report.samples == 1);
  REQUIRE(report.warnings.size() == 1);
  CHECK(contains(report.warnings[0], "its index lists 10 samples that end at byte"));
  CHECK(energon::read_file(folder.file("x.jsonl.idx")).size() == 2 * 8);
  CHECK(error_of([&] { prepare_jsonl(folder.file("absent.jsonl")); }).first ==
        ErrorCode::kNotFound);
}
