#include "io/index/tar_index.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ByteRange;
using energon::ErrorCode;
using energon::TarIndex;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::TempDir;
using Entries = std::vector<std::uint64_t>;

namespace {

constexpr std::uint64_t kTarSize = 10240;

std::string golden_bytes() {
  return {
      "\x00\x00\x00\x00\x00\x00\x00\x00"
      "\x00\x08\x00\x00\x00\x00\x00\x00"
      "\x00\x10\x00\x00\x00\x00\x00\x00"
      "\x00\x18\x00\x00\x00\x00\x00\x00",
      32};
}

}  // namespace

TEST_CASE("an index is a bare list of little-endian offsets", "[io][formats][tar_index]") {
  const TempDir folder;
  const std::string path = folder.file("a.tar.idx");
  energon::write_tar_index(path, Entries{0, 2048, 4096, 6144});
  CHECK(energon::read_file(path) == golden_bytes());
  const TarIndex index = TarIndex::load(path, kTarSize);
  CHECK(index.sample_count() == 3);
  CHECK(index.range(0) == ByteRange{0, 2048});
  CHECK(index.range(2) == ByteRange{4096, 2048});
  CHECK(energon::summarize_tar_index(path, kTarSize).sample_count == 3);
  CHECK(energon::summarize_tar_index(path, kTarSize).end_offset == 6144);
  CHECK(error_of([&] { index.range(3); }).first == ErrorCode::kInvalidArgument);
  CHECK(error_of([&] { index.range(-1); }).first == ErrorCode::kInvalidArgument);
}

TEST_CASE("sample 0 starts at byte 0 regardless of its entry", "[io][formats][tar_index]") {
  const TarIndex index = TarIndex::from_entries({512, 2048, 4096}, kTarSize);
  CHECK(index.range(0) == ByteRange{0, 2048});
  CHECK(index.range(1) == ByteRange{2048, 2048});
  CHECK(TarIndex::from_entries({512}, kTarSize).sample_count() == 0);
}

TEST_CASE("an index truncated at any byte is refused or a different, shorter index",
          "[io][formats][tar_index]") {
  const TempDir folder;
  for (std::size_t size = 0; size < golden_bytes().size(); ++size) {
    CAPTURE(size);
    const std::string path = folder.write("cut.idx", golden_bytes().substr(0, size));
    if (size == 0 || size % 8 != 0) {
      CHECK(error_of([&] { TarIndex::load(path, kTarSize); }).first == ErrorCode::kCorruptData);
    } else {
      // The bare format cannot detect this; the count of .info.json and the archive's end can.
      CHECK(TarIndex::load(path, kTarSize).sample_count() < 3);
    }
  }
}

TEST_CASE("an index with any bit flipped is refused or moves one sample's boundary",
          "[io][formats][tar_index]") {
  const TempDir folder;
  int refused = 0;
  for (std::size_t bit = 0; bit < golden_bytes().size() * 8; ++bit) {
    CAPTURE(bit);
    std::string bytes = golden_bytes();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    const std::string path = folder.write("flipped.idx", bytes);
    try {
      const TarIndex index = TarIndex::load(path, kTarSize);
      for (std::int64_t i = 0; i < index.sample_count(); ++i) {
        CAPTURE(i);
        CHECK(index.range(i).end() <= kTarSize);
        CHECK(index.range(i).size >= 512);
      }
    } catch (const energon::Error& error) {
      CHECK(error.code() == ErrorCode::kCorruptData);
      ++refused;
    }
  }
  CHECK(refused > 32 * 8 - 16);
}

TEST_CASE("a loaded index does not change with its file", "[io][formats][tar_index]") {
  const TempDir folder;
  Entries entries;
  for (std::uint64_t i = 0; i <= 2000; ++i) {  // 16 KB
    entries.push_back(i * 1024);
  }
  const std::uint64_t tar_size = 2000 * 1024 + 10240;
  const std::string path = folder.file("a.tar.idx");
  energon::write_tar_index(path, entries);
  const TarIndex index = TarIndex::load(path, tar_size);
  const std::uint64_t digest = index.digest();
  const auto is_whole = [&] {
    return std::ranges::equal(index.entries(), entries) && index.digest() == digest &&
           index.range(999) == ByteRange{999 * 1024, 1024};
  };
  CHECK(is_whole());
  const energon::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(::pwrite(file.get(), entries.data(), 8, 1000 * 8) == 8);  // in place
  CHECK(is_whole());
  CHECK(error_of([&] { TarIndex::load(path, tar_size); }).first == ErrorCode::kCorruptData);
  for (const std::uint64_t size : {4100, 4096, 0}) {
    CAPTURE(size);
    std::filesystem::resize_file(path, size);
    CHECK(is_whole());
    CHECK(TarIndex::from_entries(entries, tar_size).digest() == digest);
  }
  const auto [code, message] = error_of([&] { TarIndex::load(path, tar_size); });
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, path));
}

TEST_CASE("impossible offsets are refused", "[io][formats][tar_index]") {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
  for (const Entries& entries : {Entries{}, Entries{0, 0}, Entries{512, 0}, Entries{0, 100},
                                 Entries{0, 10752}, Entries{0, kHuge}, Entries{kHuge, 1024},
                                 Entries{0, 2048, 1024, 4096}, Entries{0, ~std::uint64_t{511}}}) {
    CAPTURE(entries);
    CHECK(error_of([&] { TarIndex::from_entries(entries, kTarSize); }).first ==
          ErrorCode::kCorruptData);
  }
}

TEST_CASE("an index longer than its tar allows is refused without being read",
          "[io][formats][tar_index]") {
  const TempDir folder;
  const std::string path = folder.write("huge.idx", "");
  std::filesystem::resize_file(path, std::uint64_t{1} << 40);  // sparse
  CHECK(error_of([&] { TarIndex::load(path, kTarSize); }).first == ErrorCode::kCorruptData);
}

TEST_CASE("a truncated tar is named as such", "[io][formats][tar_index]") {
  CHECK(contains(error_of([] { TarIndex::from_entries({0, 2048}, 1024); }).second, "truncated"));
}

TEST_CASE("the index name replaces the last suffix", "[io][formats][tar_index]") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"a.tar", "a.tar.idx"},           {"v1.2.tar", "v1.2.tar.idx"},   {"a.tgz", "a.tar.idx"},
      {"a.tar.gz", "a.tar.tar.idx"},    {"a.tar.zst", "a.tar.tar.idx"}, {"d.x/a", "d.x/a.tar.idx"},
      {"d.x/.tar", "d.x/.tar.tar.idx"}, {"/d/a.tar", "/d/a.tar.idx"},
  };
  for (const auto& [shard, index] : table) {
    CAPTURE(shard);
    CHECK(energon::tar_index_path(shard) == index);
  }
}

TEST_CASE("two shards with the same index name are refused by name", "[io][formats][tar_index]") {
  const std::vector<std::string> fine = {"a.tar", "b.tgz", "d/a.tgz"};
  CHECK_NOTHROW(energon::check_index_paths_differ(fine));
  const std::vector<std::string> clash = {"d/a.tar", "d/a.tgz"};
  const auto [code, message] = error_of([&] { energon::check_index_paths_differ(clash); });
  CHECK(code == ErrorCode::kInvalidArgument);
  CHECK(contains(message, "d/a.tar"));
  CHECK(contains(message, "d/a.tgz"));
}
