#include "io/recipe/join_index.h"

#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ErrorCode;
using energon::JoinIndex;
using energon::JoinIndexWriter;
using energon::JoinNameField;
using energon::JoinPlace;
using energon::JoinRow;
using energon::Nonmatch;
using energon::read_file;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::files_below;
using energon::testing::TempDir;
using TarSizes = JoinIndex::TarSizes;

namespace {

const std::vector<JoinRow> kRows = {
    {JoinPlace{0, {0, 1024}}, JoinPlace{3, {512, 2048}}},
    {JoinPlace{1, {1024, 512}}, std::nullopt},
};

std::string write(const std::string& path, const std::vector<JoinRow>& rows,
                  std::size_t columns = 2) {
  JoinIndexWriter writer(path, columns);
  for (const JoinRow& row : rows) {
    writer.add(row);
  }
  writer.finish();
  return path;
}

std::string number(std::int64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A file with one row of two places.
std::string file_of(const std::vector<std::int64_t>& numbers) {
  std::string bytes = "JIDX0001" + number(2);
  for (const std::int64_t value : numbers) {
    bytes += number(value);
  }
  return bytes;
}

}  // namespace

TEST_CASE("rows survive a round trip", "[io][formats][join]") {
  const TempDir folder;
  const JoinIndex index(write(folder.file("j.bin"), kRows), 2);
  CHECK(index.path() == folder.file("j.bin"));
  CHECK(index.column_count() == 2);
  REQUIRE(index.row_count() == 2);
  CHECK(index.row(0) == kRows[0]);
  CHECK(index.row(1) == kRows[1]);
  for (const std::int64_t i : {-1, 2}) {
    CAPTURE(i);
    CHECK(error_of([&] { index.row(i); }).first == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("all rows are read with few system calls", "[io][formats][join]") {
  constexpr std::int64_t kManyRows = 10'000;
  const TempDir folder;
  std::vector<JoinRow> rows;
  for (std::int64_t i = 0; i < kManyRows; ++i) {
    rows.push_back({JoinPlace{i, {0, 1024}}, i % 3 == 0 ? std::nullopt : kRows[0][1]});
  }
  const JoinIndex index(write(folder.file("j.bin"), rows), 2);
  const auto reads_of_thread = [] {
    std::ifstream io("/proc/thread-self/io");
    for (std::string name; io >> name;) {
      std::int64_t value = 0;
      io >> value;
      if (name == "syscr:") {
        return value;
      }
    }
    return std::int64_t{0};
  };
  const std::int64_t before = reads_of_thread();
  std::int64_t next = 0;
  index.for_each_row([&](std::int64_t i, const JoinRow& row) {
    if (i != next || row != rows[static_cast<std::size_t>(i)]) {
      FAIL("another row");
    }
    ++next;
  });
  CHECK(next == kManyRows);
  CHECK(reads_of_thread() - before < 20);
}

TEST_CASE("the file has the bytes of Energon's", "[io][formats][join]") {
  const TempDir folder;
  CHECK(read_file(write(folder.file("j.bin"), kRows)) ==
        file_of({0, 0, 1024, 3, 512, 2048, 1, 1024, 512, -1, -1, -1}));
}

TEST_CASE("a join index appears complete or not at all", "[io][formats][join]") {
  const TempDir folder;
  {
    JoinIndexWriter writer(folder.file("j.bin"), 2);
    writer.add(kRows[0]);
    CHECK(error_of([&] { writer.add({std::nullopt}); }).first == ErrorCode::kInvalidArgument);
  }
  CHECK(files_below(folder.path()).empty());
}

TEST_CASE("a file that is not a join index is refused", "[io][formats][join]") {
  const TempDir folder;
  const auto open_error = [&](const std::string& bytes) {
    const auto [code, message] = error_of([&] { JoinIndex(folder.write("j.bin", bytes), 2); });
    CHECK(code == ErrorCode::kCorruptData);
    return message;
  };
  CHECK(contains(open_error("JIDX0001"), "its 8 bytes are fewer than a header"));
  CHECK(contains(open_error("JIDX0002" + number(2)), "expected magic JIDX0001"));
  CHECK(contains(open_error("JIDX0001" + number(3)), "has 3 datasets, but the join has 2"));
  CHECK(contains(open_error("JIDX0001" + number(-2)), "has -2 datasets"));
  CHECK(contains(open_error(file_of({0, 0, 512, 0, 0})), "not a whole number of rows"));
  CHECK(error_of([&] { JoinIndex(folder.file("absent"), 2); }).first == ErrorCode::kNotFound);
}

TEST_CASE("an invalid row is refused with its index and byte", "[io][formats][join]") {
  const TempDir folder;
  const auto row_error = [&](const std::vector<std::int64_t>& numbers) {
    const JoinIndex index(folder.write("j.bin", file_of(numbers)), 2);
    const auto [code, message] = error_of([&] { index.row(0); });
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, "row 0 of the join index, dataset"));
    CHECK(contains(message, "byte: 16"));
    return message;
  };
  CHECK(contains(row_error({-1, -1, -1, 0, 0, 512}), "dataset 0: the sample is missing"));
  CHECK(contains(row_error({0, 0, 512, -1, 0, 512}), "dataset 1: shard -1, offset 0 and size 512"));
  CHECK(contains(row_error({0, 0, 512, 0, -512, 512}), "are not a valid sample"));
  CHECK(contains(row_error({0, 0, 512, 0, 3, 512}), "are not a valid sample"));
  CHECK(contains(row_error({0, 0, 0, 0, 0, 512}), "dataset 0: shard 0, offset 0 and size 0"));
  CHECK(contains(row_error({0, 512, INT64_MAX, 0, 0, 512}), "are not a valid sample"));
}

TEST_CASE("rows are checked against the shards", "[io][formats][join]") {
  const TempDir folder;
  const JoinIndex index(write(folder.file("j.bin"), kRows), 2);
  const TarSizes first = {10240, 10240};
  const TarSizes second = {std::nullopt, std::nullopt, 512, 10240};
  CHECK_NOTHROW(index.check(std::vector{first, second}));
  const auto check_error = [&](const TarSizes& a, const TarSizes& b) {
    return error_of([&] { index.check(std::vector{a, b}); }).second;
  };
  CHECK(contains(
      check_error({10240}, second),
      "row 1 of the join index, dataset 0: shard 1 is not one of the 1 in the split part"));
  CHECK(contains(check_error({10240, std::nullopt}, second), "or is excluded"));
  CHECK(contains(check_error({10240, 1024}, second), "ends at byte 1536, but the shard at 1024"));
  CHECK(error_of([&] { index.check(std::span(&first, 1)); }).first == ErrorCode::kInvalidArgument);
}

TEST_CASE("rows that are not in the order of the first dataset are refused",
          "[io][formats][join]") {
  const TempDir folder;
  const std::vector<TarSizes> sizes = {{8192, 8192}, {8192}};
  const auto check = [&](const std::vector<std::int64_t>& first,
                         const std::vector<std::int64_t>& second) {
    std::vector<std::int64_t> numbers = first;
    numbers.insert(numbers.end(), second.begin(), second.end());
    JoinIndex(folder.write("j.bin", file_of(numbers)), 2).check(sizes);
  };
  check({0, 512, 1024, 0, 512, 512}, {1, 0, 512, 0, 512, 512});
  for (const std::int64_t offset : {0, 512}) {  // the previous row of the dataset, and the same one
    CAPTURE(offset);
    const auto [code, message] = error_of([&] {
      check({0, 512, 1024, 0, 512, 512}, {0, offset, 512, 0, 1024, 512});
    });
    CHECK(code == ErrorCode::kCorruptData);
    CHECK(contains(message, "row 1"));
    CHECK(contains(message, "does not follow"));
  }
}

TEST_CASE("a name is Energon's", "[io][formats][join]") {
  JoinNameField one{.uuid = "11111111-2222-4333-8444-555555555555", .excludes = {}};
  JoinNameField two{
      .uuid = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee", .excludes = {}, .nonmatch = Nonmatch::kSkip};
  // Computed with Python's hashlib as Energon feeds it.
  CHECK(join_index_name(std::vector{one, two}) ==
        "join_index_"
        "ef76a51bc21285c863417e21ed2f67d8ffae576370d84913428b72707ce13c09.bin");
  one.excludes = {"parts/data-1.tar/000035"};
  two.nonmatch = Nonmatch::kNone;
  CHECK(join_index_name(std::vector{one, two}) ==
        "join_index_"
        "2bd074b841a076226ec7b7322f5518f2a25f3b42e72d45cbb36deb77108d2284.bin");
}

TEST_CASE("a name depends on everything but the order of the excludes", "[io][formats][join]") {
  const JoinNameField field{.uuid = "u", .excludes = {"a/1", "b/2"}};
  const auto name = [](const JoinNameField& changed) {
    return join_index_name(std::vector{changed});
  };
  JoinNameField changed = field;
  changed.excludes = {"b/2", "a/1", "b/2"};
  CHECK(name(changed) == name(field));
  changed.excludes = {"a/1"};
  CHECK(name(changed) != name(field));
  changed = field;
  changed.split = "/train";
  CHECK(name(changed) != name(field));
  JoinNameField val = changed;
  val.split = "/val";
  CHECK(name(val) != name(changed));
  changed = field;
  changed.uuid = "v";
  CHECK(name(changed) != name(field));
}
