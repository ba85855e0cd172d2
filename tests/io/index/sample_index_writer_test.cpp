// The pages of index.sqlite: SQLite must read the same content as if it had written them.

#include "io/index/sample_index_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sqlite3.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/sqlite_handle.h"
#include "io/index/sqlite_pages.h"
#include "tests/io/index/index_rows.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using namespace energon;  // NOLINT: a test
using energon::testing::TempDir;
using energon::testing::write_index;

namespace {

using Shards = std::vector<std::vector<ScannedSample>>;

// Every row of a query, the columns separated by '|'.
std::vector<std::string> rows_of(sqlite3* db, const std::string& path, const std::string& sql) {
  std::vector<std::string> rows;
  Statement statement(db, sql, path);
  const int columns = static_cast<int>(std::count(sql.begin(), sql.end(), ',')) + 1;
  while (statement.step()) {
    std::string row;
    for (int i = 0; i < columns; ++i) {
      row += std::string(statement.text(i)) + "|";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// The rows of the tables, as specified by docs/formats/energon_files.md.
std::vector<std::string> expected_samples(const Shards& shards) {
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (std::size_t k = 0; k < shards[i].size(); ++k) {
      const ScannedSample& sample = shards[i][k];
      rows.push_back(fmt::format("{}|{}|{}|{}|{}|{}|", rows.size() + 1, i, sample.key, k,
                                 sample.offset, sample.size));
    }
  }
  return rows;
}

std::vector<std::string> expected_parts(const Shards& shards) {
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (std::size_t k = 0; k < shards[i].size(); ++k) {
      for (const ScannedPart& part : shards[i][k].parts) {
        rows.push_back(fmt::format("{}|{}|{}|{}|{}|{}|", rows.size() + 1, i, k, part.name,
                                   part.content_offset, part.size));
      }
    }
  }
  return rows;
}

void check_index(const std::string& path, const Shards& shards) {
  const SqlitePtr db = open_sqlite(path, SQLITE_OPEN_READONLY, path);
  CHECK(rows_of(db.get(), path, "PRAGMA integrity_check") == std::vector<std::string>{"ok|"});
  CHECK(rows_of(db.get(), path,
                "SELECT rowid, tar_file_id, sample_key, sample_index, byte_offset, byte_size "
                "FROM samples NOT INDEXED ORDER BY rowid") == expected_samples(shards));
  CHECK(rows_of(db.get(), path,
                "SELECT rowid, tar_file_id, sample_index, part_name, content_byte_offset, "
                "content_byte_size FROM sample_parts NOT INDEXED ORDER BY rowid") ==
        expected_parts(shards));
}

// Keys of `key_bytes` in a random order. Each sample has up to three parts.
Shards random_shards(std::uint32_t seed, int shards, int samples, std::size_t key_bytes) {
  std::mt19937 random(seed);
  std::vector<int> numbers(static_cast<std::size_t>(shards * samples));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<int>(i);
  }
  std::shuffle(numbers.begin(), numbers.end(), random);
  Shards result(static_cast<std::size_t>(shards));
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    ScannedSample sample{.key = fmt::format("{:0{}d}", numbers[i], key_bytes), .offset = offset};
    const std::uint32_t parts = random() % 4;
    for (std::uint32_t k = 0; k < parts; ++k) {
      const std::string name = std::string(1, static_cast<char>('z' - k)) +
                               std::string(random() % 20 == 0 ? key_bytes : 1, 'p');
      sample.parts.push_back({name, offset + 512, random() % 10'000});
      offset += random() % 20 == 0 ? std::uint64_t{1} << 33 : 1024;
    }
    offset += 512;
    sample.size = offset - sample.offset;
    result[i % result.size()].push_back(std::move(sample));
  }
  return result;
}

}  // namespace

TEST_CASE("SQLite finds an index of any size intact", "[io][formats][sample_index]") {
  // The longer the keys, the fewer fit into a page, and the more levels a tree has. A key of more
  // than 1,002 bytes continues in other pages.
  const std::size_t key_bytes = GENERATE(8U, 300U, 980U, 1'003U, 9'000U);
  for (int samples = 0; samples < 60; ++samples) {
    CAPTURE(key_bytes, samples);
    const TempDir folder;
    const std::string path = folder.file("index.sqlite");
    const Shards shards =
        random_shards(static_cast<std::uint32_t>(samples), 1 + samples % 3, samples, key_bytes);
    CHECK(write_index(path, shards).count == 0);
    check_index(path, shards);
  }
}

TEST_CASE("SQLite finds an index with trees of several levels intact",
          "[io][formats][sample_index]") {
  const auto [samples, key_bytes] = GENERATE(
      table<int, std::size_t>({{20'000, 10}, {700, 900}, {701, 900}, {702, 900}, {3'000, 400}}));
  CAPTURE(samples, key_bytes);
  const TempDir folder;
  const std::string path = folder.file("index.sqlite");
  const Shards shards = random_shards(1, 3, samples, key_bytes);
  constexpr std::uint64_t kSortBytes = 64 << 10;  // less than the keys take
  CHECK(write_index(path, shards, kSortBytes).count == 0);
  check_index(path, shards);
  CHECK(energon::testing::files_below(folder.path()) == std::vector<std::string>{"index.sqlite"});
}

TEST_CASE("integers of every size can be columns", "[io][formats][sample_index]") {
  const TempDir folder;
  const std::string path = folder.file("index.sqlite");
  std::vector<ScannedSample> samples;
  for (int bits = 0; bits < 63; ++bits) {
    for (const std::uint64_t offset : {(std::uint64_t{1} << bits) - 1, std::uint64_t{1} << bits,
                                       (std::uint64_t{1} << bits) + 1}) {
      samples.push_back({.key = fmt::format("{:03}", samples.size()),
                         .offset = offset,
                         .size = offset / 2,
                         .parts = {{"a", offset, offset}}});
    }
  }
  CHECK(write_index(path, {samples}).count == 0);
  check_index(path, {samples});
}

TEST_CASE("the first duplicate keys are listed with their places", "[io][formats][sample_index]") {
  const TempDir folder;
  const auto shard = [](const std::vector<std::string>& keys) {
    std::vector<ScannedSample> samples;
    for (const std::string& key : keys) {
      samples.push_back({.key = key, .offset = 512 * samples.size(), .size = 512});
    }
    return samples;
  };
  const std::uint64_t sort_bytes = GENERATE(1U, 1U << 20);
  const RepeatedKeys repeated = write_index(
      folder.file("index.sqlite"),
      {shard({"d", "c", "b"}), shard({"x", "A", "b", "d"}), shard({"b", "c", "y"})}, sort_bytes);
  CHECK(repeated.count == 4);
  REQUIRE(repeated.named.size() == 3);
  CHECK(repeated.named[0].key == "b");
  CHECK(repeated.named[0].first == SamplePosition{0, 2});
  CHECK(repeated.named[0].again == SamplePosition{1, 2});
  CHECK(repeated.named[1].key == "d");
  CHECK(repeated.named[1].first == SamplePosition{0, 0});
  CHECK(repeated.named[1].again == SamplePosition{1, 3});
  CHECK(repeated.named[2].key == "b");
  CHECK(repeated.named[2].first == SamplePosition{0, 2});
  CHECK(repeated.named[2].again == SamplePosition{2, 0});
}

TEST_CASE("the page that SQLite locks is skipped", "[io][formats][sample_index]") {
  const TempDir folder;
  const std::string path = folder.file("large.sqlite");
  {
    const SqlitePtr db = open_sqlite(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, path);
    execute(db.get(), "PRAGMA page_size = 4096; CREATE TABLE t (x)", path);
  }
  constexpr std::uint64_t kLockPage = (std::uint64_t{1} << 30) / kBtreePageBytes + 1;
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>((kLockPage - 4) * kBtreePageBytes)) == 0);
  std::vector<std::string> expected;
  {
    BtreeFile file(path);
    BtreeBuilder tree(file, BtreeBuilder::Kind::kTable, 2);
    RowEncoder encoder;
    for (std::int64_t row = 1; row <= 10; ++row) {
      const std::string text(row % 3 == 0 ? 3'000 : 9'000, static_cast<char>('a' + row));
      expected.push_back(text + "|");
      EncodedCells cell;
      encoder.add(std::string_view(text));
      encoder.finish_row(row, cell);
      cell.for_each([&](ByteView bytes) { tree.add(bytes); });
    }
    tree.finish();
    file.finish();
  }
  const SqlitePtr db = open_sqlite(path, SQLITE_OPEN_READONLY, path);
  CHECK(rows_of(db.get(), path, "SELECT x FROM t ORDER BY rowid") == expected);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Page page;
  REQUIRE(::pread(fd.get(), page.data(), page.size(),
                  static_cast<off_t>((kLockPage - 1) * kBtreePageBytes)) == kBtreePageBytes);
  CHECK(page == Page{});
}
