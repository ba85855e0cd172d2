#include "io/index/checksum_file.h"

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::ChecksumFile;
using energon::ErrorCode;
using energon::TarIndex;
using energon::testing::error_of;
using energon::testing::TempDir;

namespace {

const std::vector<std::uint64_t> kDigests = {0x1122334455667788, 0x99AABBCCDDEEFF00};

std::string hex_of(const std::string& bytes) {
  static constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

}  // namespace

TEST_CASE("the example in the document of the format is correct", "[io][formats][checksums]") {
  const std::string bytes = energon::encode_checksums(10240, kDigests);
  CHECK(hex_of(bytes.substr(0, 48)) ==
        "45474e585848330a"    // magic
        "0100000000000000"    // version
        "0028000000000000"    // tar size
        "0200000000000000"    // samples
        "8877665544332211"    // digest of sample 0
        "00ffeeddccbbaa99");  // digest of sample 1
  CHECK(hex_of(bytes.substr(48)) == "412403ad1103a6a7");
}

TEST_CASE("checksums survive a round trip", "[io][formats][checksums]") {
  const TempDir folder;
  const std::string path = folder.file("a.tar.xxh3");
  energon::write_checksums(path, 10240, kDigests);
  const ChecksumFile file = ChecksumFile::load(path, 10240, 2);
  CHECK(file.sample_count() == 2);
  CHECK(file.digest(1) == kDigests[1]);
  CHECK(energon::checksum_path("d/a.tar.idx") == "d/a.tar.xxh3");
}

TEST_CASE("a checksum file that is truncated or flipped anywhere is refused",
          "[io][formats][checksums]") {
  const TempDir folder;
  const std::string good = energon::encode_checksums(10240, kDigests);
  const auto load = [&](const std::string& bytes) {
    const std::string path = folder.write("a.xxh3", bytes);
    return error_of([&] { ChecksumFile::load(path, 10240, 2); }).first;
  };
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    CHECK(load(good.substr(0, size)) == ErrorCode::kCorruptData);
  }
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    CAPTURE(bit);
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    CHECK(load(bytes) == ErrorCode::kCorruptData);
  }
  CHECK(load(good + "x") == ErrorCode::kCorruptData);
}

TEST_CASE("loaded checksums do not change with their file", "[io][formats][checksums]") {
  const TempDir folder;
  std::vector<std::uint64_t> digests;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    digests.push_back(i * 0x9E3779B97F4A7C15);
  }
  const std::string path = folder.file("a.tar.xxh3");
  energon::write_checksums(path, 10240, digests);
  const ChecksumFile checksums = ChecksumFile::load(path, 10240, 2000);
  CHECK(checksums.digest(1999) == digests[1999]);
  const auto code_of = [&](std::uint64_t tar_size, std::int64_t samples) {
    return error_of([&] { ChecksumFile::load(path, tar_size, samples); }).first;
  };
  CHECK(code_of(10241, 2000) == ErrorCode::kCorruptData);
  CHECK(code_of(10240, 1999) == ErrorCode::kCorruptData);
  energon::testing::change_byte(path, 5000);
  CHECK(code_of(10240, 2000) == ErrorCode::kCorruptData);
  std::filesystem::resize_file(path, 3 << 20);
  CHECK(code_of(10240, 2000) == ErrorCode::kInvalidArgument);
  std::filesystem::resize_file(path, 0);
  CHECK(code_of(10240, 2000) == ErrorCode::kCorruptData);
  CHECK(checksums.digest(1999) == digests[1999]);
}

TEST_CASE("checksums of another shard or a newer version are refused", "[io][formats][checksums]") {
  const TempDir folder;
  const std::string path = folder.file("a.tar.xxh3");
  energon::write_checksums(path, 10240, kDigests);
  CHECK(error_of([&] { ChecksumFile::load(path, 10241, 2); }).first == ErrorCode::kCorruptData);
  CHECK(error_of([&] { ChecksumFile::load(path, 10240, 3); }).first == ErrorCode::kCorruptData);
  std::string newer = energon::encode_checksums(10240, kDigests);
  newer[8] = 2;
  newer.resize(newer.size() - 8);
  const std::uint64_t digest = energon::xxh3_64(energon::as_bytes(newer));
  newer.append(reinterpret_cast<const char*>(&digest), 8);
  folder.write("b.tar.xxh3", newer);
  CHECK(error_of([&] { ChecksumFile::load(folder.file("b.tar.xxh3"), 10240, 2); }).first ==
        ErrorCode::kUnsupported);
}

TEST_CASE("one changed byte of a shard changes only the digest of its sample",
          "[io][formats][checksums]") {
  const TempDir folder;
  const std::string tar = energon::testing::make_shard(0, 3);
  const std::string path = folder.write("a.tar", tar);
  constexpr std::uint64_t kSampleBytes = 5 * 512;
  const TarIndex index =
      TarIndex::from_entries({0, kSampleBytes, 2 * kSampleBytes, 3 * kSampleBytes}, tar.size());
  const auto before = energon::compute_checksums(energon::FileSource(path), index);
  CHECK(before[1] == energon::xxh3_64(energon::as_bytes(tar).subspan(kSampleBytes, kSampleBytes)));
  for (const std::size_t offset : {kSampleBytes, kSampleBytes + 512, 2 * kSampleBytes - 1}) {
    CAPTURE(offset);
    energon::testing::change_byte(path, offset);
    const auto after = energon::compute_checksums(energon::FileSource(path), index);
    CHECK(after[0] == before[0]);
    CHECK(after[1] != before[1]);
    CHECK(after[2] == before[2]);
    energon::testing::change_byte(path, offset, -1);
  }
}
