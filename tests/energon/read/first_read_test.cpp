// Shards that were not checked when their dataset was opened.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/read/webdataset.h"
#include "io/error.h"
#include "io/file.h"
#include "io/prepare/prepare.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/error_of.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using energon::CheckShards;
using energon::Checksums;
using energon::ErrorCode;
using energon::Sample;
using energon::Webdataset;
using energon::WebdatasetReader;
using energon::testing::error_of;
using energon::testing::numbers;
using energon::testing::TarBuilder;
using energon::testing::TempDir;

namespace fs = std::filesystem;

namespace {

class Silent final : public energon::ProgressSink {
 public:
  void on_progress(const energon::PrepareProgress& /*progress*/) override {}
};

// Three shards of four samples.
struct Prepared {
  TempDir folder;

  explicit Prepared(Checksums checksums = Checksums::kNone) {
    energon::testing::write_numbered_shards(folder, {4, 4, 4});
    prepare(checksums);
  }
  void prepare(Checksums checksums) const {
    Silent sink;
    energon::prepare(folder.path(),
                     {.split_ratios = {{.part = "train", .weight = 1}},
                      .existing = energon::Existing::kOverwrite,
                      .checksums = checksums},
                     sink);
  }
  std::shared_ptr<const Webdataset> open(const energon::WebdatasetOptions& options = {},
                                         CheckShards check = CheckShards::kAtFirstRead) const {
    return std::make_shared<const Webdataset>(
        energon::open_split(folder.path(), {.check_shards = check}), options);
  }
};

std::vector<std::int64_t> read_numbers(WebdatasetReader& reader,
                                       const std::vector<std::int64_t>& indexes) {
  energon::HeapBufferPool memory;
  std::vector<Sample> samples;
  reader.read(indexes, memory, samples);
  std::vector<std::int64_t> result;
  for (const Sample& sample : samples) {
    result.push_back(numbers(sample).front());
  }
  return result;
}

std::string error_of_reading(WebdatasetReader& reader, std::int64_t index) {
  return error_of([&] { read_numbers(reader, {index}); }, ErrorCode::kCorruptData);
}

}  // namespace

TEST_CASE("shards that were not checked are read like others", "[energon][first_read]") {
  const Prepared prepared(GENERATE(Checksums::kNone, Checksums::kWrite));
  const auto open_shards = GENERATE(as<std::optional<std::size_t>>(), std::nullopt, 1);
  const auto dataset = prepared.open({.open_shards = open_shards});
  CHECK_FALSE(dataset->shards().shards.front().is_checked);
  WebdatasetReader reader(dataset);
  for (int pass = 0; pass < 2; ++pass) {
    CAPTURE(pass);
    CHECK(read_numbers(reader, {11, 0, 5, 6, 1, 10}) ==
          std::vector<std::int64_t>{11, 0, 5, 6, 1, 10});
  }
}

TEST_CASE("a dataset has one identity, whether its shards were checked or not",
          "[energon][first_read]") {
  const Prepared prepared(GENERATE(Checksums::kNone, Checksums::kWrite));
  const auto exact = prepared.open({}, CheckShards::kAtOpening);
  CHECK(prepared.open()->config() == exact->config());
  // The record no longer belongs to .info.json, so each shard is checked.
  const std::string info = energon::read_file(prepared.folder.file(".nv-meta/.info.json"));
  prepared.folder.write(".nv-meta/.info.json", info + "\n");
  CHECK(prepared.open()->config() == exact->config());
}

TEST_CASE("a shard replaced before or after opening is an error at its first read",
          "[energon][first_read]") {
  const Prepared prepared;
  const auto replace = [&] {
    prepared.folder.write("shard-001.tar", TarBuilder().file("x.txt", "1").end().text());
  };
  const bool is_before = GENERATE(true, false);
  if (is_before) {
    replace();
  }
  WebdatasetReader reader(prepared.open());
  if (!is_before) {
    replace();
  }
  CHECK(read_numbers(reader, {0, 8}) == std::vector<std::int64_t>{0, 8});
  const std::string error = error_of_reading(reader, 4);
  CHECK_THAT(error, Catch::Contains("shard 'shard-001.tar'"));
  CHECK_THAT(error, Catch::Contains("energon prepare"));
  CHECK(reader.broken_file(4) == 1);
  CHECK_FALSE(reader.broken_file(0));
}

TEST_CASE("a shard that vanished is an error at its first read", "[energon][first_read]") {
  const Prepared prepared;
  WebdatasetReader reader(prepared.open());
  fs::remove(prepared.folder.file("shard-002.tar"));
  CHECK_THAT(error_of([&] { read_numbers(reader, {8}); }, ErrorCode::kNotFound),
             Catch::Contains("the shard 'shard-002.tar' is missing"));
  CHECK(read_numbers(reader, {0}) == std::vector<std::int64_t>{0});
}

TEST_CASE("a shard that changes after its first read is an error when it is opened again",
          "[energon][first_read]") {
  const Prepared prepared;
  WebdatasetReader reader(prepared.open({.open_shards = 1}));
  CHECK(read_numbers(reader, {0}) == std::vector<std::int64_t>{0});
  CHECK(read_numbers(reader, {4}) == std::vector<std::int64_t>{4});
  const std::string path = prepared.folder.file("shard-000.tar");
  const std::string content = energon::read_file(path);
  const auto time = fs::last_write_time(path);
  fs::remove(path);
  prepared.folder.write("keep-the-inode", "");
  prepared.folder.write("shard-000.tar", content);
  fs::last_write_time(path, time + std::chrono::seconds(1));
  CHECK_THAT(error_of_reading(reader, 0), Catch::Contains("changed since the dataset was opened"));
}

TEST_CASE("an index or a checksum file of another shard is an error at the first read",
          "[energon][first_read]") {
  const Prepared prepared(Checksums::kWrite);
  const auto exchange = [&](const std::string& suffix) {
    fs::copy_file(prepared.folder.file("shard-001.tar" + suffix),
                  prepared.folder.file("shard-000.tar" + suffix),
                  fs::copy_options::overwrite_existing);
  };
  std::string file;
  SECTION("index") {
    // The index has the same size and end, with an entry at another member.
    const std::string path = prepared.folder.file("shard-000.tar.idx");
    std::string content = energon::read_file(path);
    content[9] = static_cast<char>(content[9] ^ 2);
    energon::write_file_atomically(path, energon::as_bytes(content));
    file = "shard-000.tar.idx";
  }
  SECTION("checksums") {
    exchange(".xxh3");
    file = "shard-000.tar.xxh3";
  }
  WebdatasetReader reader(prepared.open());
  CHECK(read_numbers(reader, {4}) == std::vector<std::int64_t>{4});
  const std::string error = error_of_reading(reader, 0);
  CHECK_THAT(error, Catch::Contains(file));
  CHECK_THAT(error, Catch::Contains("energon prepare --force-overwrite"));
}

TEST_CASE("plain tars that were opened before are read like others", "[energon][first_read]") {
  const TempDir folder;
  energon::testing::write_numbered_shards(folder, std::vector<std::int64_t>(20, 4));
  const auto open = [&](CheckShards check) {
    return std::make_shared<const Webdataset>(energon::open_split(
        folder.path(), {.check_shards = check, .cache_dir = folder.file(".cache")}));
  };
  open(CheckShards::kAtFirstRead);
  const auto dataset = open(CheckShards::kAtFirstRead);
  CHECK_FALSE(dataset->shards().shards.front().is_checked);
  CHECK(dataset->config() == open(CheckShards::kAtOpening)->config());
  WebdatasetReader reader(dataset);
  CHECK(read_numbers(reader, {79, 0, 5, 6}) == std::vector<std::int64_t>{79, 0, 5, 6});
  // Overwritten after it was opened.
  folder.write("shard-010.tar", TarBuilder().file("000999.txt", "999").end().text());
  CHECK_THAT(error_of_reading(reader, 41), Catch::Contains("changed since the dataset was opened"));
  CHECK(read_numbers(reader, {36, 44}) == std::vector<std::int64_t>{36, 44});
}

TEST_CASE("an open loader reads what it opened after another prepare", "[energon][first_read]") {
  const Prepared prepared;
  WebdatasetReader reader(prepared.open());
  SECTION("of the same shards") {
    prepared.prepare(Checksums::kNone);
    CHECK(read_numbers(reader, {0, 8}) == std::vector<std::int64_t>{0, 8});
  }
  SECTION("of a changed shard") {
    prepared.folder.write("shard-001.tar", TarBuilder().file("000999.txt", "999").end().text());
    prepared.prepare(Checksums::kNone);
    CHECK(read_numbers(reader, {0, 8}) == std::vector<std::int64_t>{0, 8});
    CHECK_THAT(error_of_reading(reader, 4), Catch::Contains("shard 'shard-001.tar'"));
  }
}
