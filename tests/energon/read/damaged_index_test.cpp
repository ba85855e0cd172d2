// Damage that moves or removes parts of samples: no sample may be delivered without a part.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/read/webdataset.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test

namespace {

constexpr std::uint64_t kPartBytes = 1024;  // header and one block
constexpr std::uint64_t kSampleBytes = 3 * kPartBytes;

// Samples "k0" … of three parts in one plain shard.
std::string three_parts(int samples) {
  TarBuilder tar;
  for (int i = 0; i < samples; ++i) {
    for (const char* part : {"cls", "jpg", "txt"}) {
      tar.file(fmt::format("k{}.{}", i, part), fmt::format("{} of {}", part, i));
    }
  }
  return tar.end().text();
}

// An earlier index of the same version of the tar.
void write_index(const std::string& tar, const std::vector<std::uint64_t>& entries) {
  write_tar_index(tar + ".idx", entries);
  mark_index_fresh(tar + ".idx", FileSource(tar).identity());
}

std::vector<std::uint64_t> right_entries(int samples) {
  std::vector<std::uint64_t> entries;
  for (int i = 0; i <= samples; ++i) {
    entries.push_back(static_cast<std::uint64_t>(i) * kSampleBytes);
  }
  return entries;
}

std::shared_ptr<const Webdataset> open(const std::string& path) {
  return std::make_shared<const Webdataset>(open_split(path));
}

// Part names of sample `i`, read alone or with others; "error" if it cannot be read.
std::string parts_of(WebdatasetReader& reader, std::int64_t i) {
  HeapBufferPool memory;
  std::vector<Sample> samples;
  try {
    reader.read({&i, 1}, memory, samples);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kCorruptData);
    CHECK(error.context().path);
    return "error";
  }
  std::string names;
  for (const auto& [name, value] : samples.at(0).fields) {
    names += name + " ";
  }
  return names;
}

}  // namespace

TEST_CASE("an index entry at another member gives no stripped sample, in any order of reading",
          "[energon][webdataset]") {
  const TempDir folder;
  const std::string tar = folder.write("a.tar", three_parts(5));
  // Sample 2 begins one or two members too late or too early.
  const std::int64_t shift = GENERATE(-2, -1, 1, 2);
  auto entries = right_entries(5);
  entries[2] = static_cast<std::uint64_t>(static_cast<std::int64_t>(entries[2]) +
                                          shift * static_cast<std::int64_t>(kPartBytes));
  write_index(tar, entries);
  const auto dataset = open(tar);
  const std::string all = "cls jpg txt ";
  for (const std::vector<std::int64_t>& order : {std::vector<std::int64_t>{0, 1, 2, 3, 4},
                                                 {4, 3, 2, 1, 0},
                                                 {2, 1},
                                                 {1, 2},
                                                 {2, 4, 0, 1, 3}}) {
    WebdatasetReader reader(dataset);
    for (const std::int64_t i : order) {
      CAPTURE(shift, order, i);
      CHECK(parts_of(reader, i) == (i == 1 || i == 2 ? "error" : all));
    }
  }
}

TEST_CASE("a batch with a stripped sample is refused", "[energon][webdataset]") {
  const TempDir folder;
  const std::string tar = folder.write("a.tar", three_parts(5));
  auto entries = right_entries(5);
  entries[3] += kPartBytes;
  write_index(tar, entries);
  WebdatasetReader reader(open(tar));
  HeapBufferPool memory;
  std::vector<Sample> samples;
  const std::vector<std::int64_t> batch = {4, 3, 0};
  CHECK_THROWS_WITH(reader.read(batch, memory, samples), Catch::Contains("index is wrong"));
  CHECK(samples.empty());
}

TEST_CASE("damage of a neighbor does not make a whole sample unreadable", "[energon][webdataset]") {
  const TempDir folder;
  std::string bytes = three_parts(3);
  const std::string tar = folder.write("a.tar", bytes);
  write_index(tar, right_entries(3));
  const auto dataset = open(tar);
  WebdatasetReader reader(dataset);
  CHECK(parts_of(reader, 1) == "cls jpg txt ");
  const auto damage = [&](std::uint64_t offset) {
    const auto time = std::filesystem::last_write_time(tar);
    bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
    write_file_atomically(tar, as_bytes(bytes));
    std::filesystem::last_write_time(tar, time);
  };
  damage(0);                 // first header of sample 0
  damage(2 * kSampleBytes);  // of sample 2
  WebdatasetReader later(open(tar));
  CHECK(parts_of(later, 1) == "cls jpg txt ");
  CHECK(parts_of(later, 0) == "error");
  CHECK(parts_of(later, 2) == "error");
}

TEST_CASE("a zeroed part is an error, not a sample without the part", "[energon][webdataset]") {
  const TempDir folder;
  const std::string tar = folder.write("a.tar", three_parts(4));
  write_index(tar, right_entries(4));
  const auto time = std::filesystem::last_write_time(tar);
  const std::int64_t sample = GENERATE(0, 2, 3);
  const int zeroed = GENERATE(1, 2, 3);  // parts, from the sample's end
  std::string bytes = three_parts(4);
  const std::uint64_t end = (static_cast<std::uint64_t>(sample) + 1) * kSampleBytes;
  const std::uint64_t begin = end - static_cast<std::uint64_t>(zeroed) * kPartBytes;
  std::memset(bytes.data() + begin, 0, end - begin);
  write_file_atomically(tar, as_bytes(bytes));
  std::filesystem::last_write_time(tar, time);
  WebdatasetReader reader(open(tar));
  for (std::int64_t i = 0; i < 4; ++i) {
    CAPTURE(sample, zeroed, i);
    CHECK(parts_of(reader, i) == (i == sample ? "error" : "cls jpg txt "));
  }
}

TEST_CASE("a duplicate part under an index by Energon is refused with its byte",
          "[energon][webdataset]") {
  const TempDir folder;
  TarBuilder builder;
  builder.file("a.txt", "1").file("b.txt", "first").file("b.cls", "7").file("b.txt", "last");
  const int more = GENERATE(0, 40);  // few and many parts are compared in different ways
  for (int i = 0; i < more; ++i) {
    builder.file(fmt::format("b.p{}", i), "x");
  }
  const std::string tar = folder.write("a.tar", builder.end().text());
  write_index(tar, {0, 1024, builder.size() - 1024});
  WebdatasetReader reader(open(tar));
  HeapBufferPool memory;
  std::vector<Sample> samples;
  const std::int64_t index = 1;
  try {
    reader.read({&index, 1}, memory, samples);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kCorruptData);
    CHECK_THAT(error.message(), Catch::Contains("part 'txt' occurs twice"));
    CHECK(error.context().path == tar);
    CHECK(error.context().byte_offset == 3072);
    CHECK(error.context().sample_key == "b");
  }
}
