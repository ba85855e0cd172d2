// Damage at every byte of a small shard never causes a wrong or silently shorter list of samples.

#include <sys/types.h>
#include <unistd.h>

#include <random>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/tar/shard_scan.h"
#include "tests/io/tar/tar_verbs.h"
#include "tests/support/tar_builder.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test

namespace {

TarBuilder small_shard() {
  return TarBuilder()
      .file("a.txt", "hello")
      .pax({{"path", "b.json"}, {"mtime", "1.5"}})
      .file("s", "{}")
      .gnu_long_name("c.txt")
      .gnu_file("l", "")
      .v7_file("c.cls", "7")
      .header({.name = "\xc3\xa9.txt", .size = 1, .prefix = "dir"})
      .data("x")
      .end();
}

// Offsets of the header blocks of small_shard().
const std::vector<std::size_t> kHeaderOffsets = {0, 1024, 2048, 3072, 4096, 4608, 5632};

}  // namespace

TEST_CASE("a shard truncated anywhere is refused, or a warning at a member's end",
          "[io][tar][damage]") {
  const std::string tar = small_shard().text();
  const TempDir folder;
  const std::string path = folder.write("a.tar", tar);
  const ShardScan whole = scan_shard(FileSource(path));
  REQUIRE(outline(whole) == "a(txt) b(json) c(txt cls) dir/\xc3\xa9(txt)");
  REQUIRE(whole.warnings.empty());

  std::size_t warned = 0;
  std::size_t wrong = 0;
  for (std::size_t size = tar.size() - 1;; --size) {
    CAPTURE(size);
    REQUIRE(::truncate(path.c_str(), static_cast<off_t>(size)) == 0);
    try {
      const ShardScan cut = scan_shard(FileSource(path));
      const bool is_prefix =
          cut.samples.size() <= whole.samples.size() &&
          outline(whole).starts_with(outline(cut).substr(0, outline(cut).size() - 1));
      const bool only_end_is_cut = size > whole.end_offset && cut.samples == whole.samples;
      const bool was_warned = size <= whole.end_offset && cut.end_offset == size &&
                              cut.warnings.size() == 1 && is_prefix;
      warned += was_warned ? 1U : 0U;
      wrong += was_warned || only_end_is_cut ? 0U : 1U;
    } catch (const Error& error) {
      wrong += error.code() == ErrorCode::kCorruptData && error.context().byte_offset ? 0U : 1U;
    }
    if (size == 0) {
      break;
    }
  }
  CHECK(wrong == 0);
  CHECK(warned == 5);  // one for each member
}

TEST_CASE("a flipped bit in a header never changes the list of members", "[io][tar][damage]") {
  std::string tar = small_shard().text();
  const std::vector<WalkedMember> members = walk(tar);
  std::size_t refused = 0;
  std::size_t wrong = 0;
  for (const std::size_t header : kHeaderOffsets) {
    for (std::size_t bit = 0; bit < std::size_t{512} * 8; ++bit) {
      char& byte = tar[header + bit / 8];
      const char original = byte;
      byte = static_cast<char>(byte ^ (1 << bit % 8));
      try {
        wrong += walk(tar) == members ? 0U : 1U;
      } catch (const Error&) {
        ++refused;
      }
      byte = original;
    }
  }
  CHECK(wrong == 0);
  // The rest are bits of the checksum field that do not change its value, such as NUL for a space.
  CHECK(refused > kHeaderOffsets.size() * (std::size_t{512} * 8 - 16));
}

TEST_CASE("a flipped bit in a header never changes a scan", "[io][tar][damage]") {
  const std::string tar = small_shard().text();
  const TempDir folder;
  const std::string path = folder.write("a.tar", tar);
  const ShardScan whole = scan_shard(FileSource(path));
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const std::size_t header = 2048;  // after a pax header
  std::size_t wrong = 0;
  for (std::size_t bit = 0; bit < std::size_t{512} * 8; ++bit) {
    CAPTURE(bit);
    const auto offset = static_cast<off_t>(header + bit / 8);
    const char flipped = static_cast<char>(tar[header + bit / 8] ^ (1 << bit % 8));
    REQUIRE(::pwrite(fd.get(), &flipped, 1, offset) == 1);
    try {
      wrong += scan_shard(FileSource(path)).samples == whole.samples ? 0U : 1U;
    } catch (const Error&) {
    }
    REQUIRE(::pwrite(fd.get(), &tar[header + bit / 8], 1, offset) == 1);
  }
  CHECK(wrong == 0);
  // Bits of payloads and of the bodies of pax headers and long names have no checksum in a tar: the
  // digests of an index find them, a scan cannot.
}

TEST_CASE("mutants with valid checksums are walked alike in memory and in a file, or refused",
          "[io][tar][damage]") {
  const std::string tar = small_shard().text();
  const TempDir folder;
  std::mt19937 random(7);
  std::size_t different = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string mutant = tar;
    const std::size_t header = kHeaderOffsets[random() % kHeaderOffsets.size()];
    for (std::uint32_t change = 0; change <= random() % 3; ++change) {
      const std::size_t where = random() % 4 == 0 ? 124 + random() % 33 : random() % 1024;
      mutant[header + where] = static_cast<char>(random());
    }
    mutant.replace(header, 512, with_checksum(mutant.substr(header, 512)));
    const FileSource file(folder.write("m.tar", mutant));
    std::optional<std::vector<WalkedMember>> in_memory;
    std::optional<std::vector<WalkedMember>> in_file;
    try {
      in_memory = walk(mutant);
    } catch (const Error&) {
    }
    try {
      in_file = all_members(TarFileWalker(file));
    } catch (const Error&) {
    }
    different += in_memory == in_file || !in_memory ? 0U : 1U;
    try {
      scan_shard(file);  // must return a result or throw an Error
    } catch (const Error&) {
    }
  }
  CHECK(different == 0);
}
