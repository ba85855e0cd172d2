#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/hash.h"
#include "io/lint/lint.h"
#include "tests/io/dataset/summarized_folder.h"

using energon::CheckShards;
using energon::Checksums;
using energon::ErrorCode;
using energon::Existing;
using energon::read_file;
using energon::ShardSet;
using energon::ShardSummary;
using energon::testing::change_byte;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::is_checked;
using energon::testing::is_unchecked;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::SummarizedFolder;

namespace fs = std::filesystem;

namespace {

std::string sealed(std::string content) {
  const std::uint64_t digest = energon::xxh3_64(energon::as_bytes(content));
  return content.append(reinterpret_cast<const char*>(&digest), sizeof(digest));
}

}  // namespace

TEST_CASE("the summary of shards has the bytes of its documentation", "[io][formats][summary]") {
  const ShardSummary summary{.set_digest = 0x0102030405060708,
                             .shards = {{.record = {.name = "a.tar",
                                                    .size_bytes = 10240,
                                                    .mtime_ns = 1'700'000'000'000'000'000,
                                                    .header_digest = 0x1122334455667788,
                                                    .index_digest = 0x99aabbccddeeff00},
                                         .sample_count = 3,
                                         .end_offset = 6144,
                                         .has_checksums = true,
                                         .checksum_digest = 0x0f1e2d3c4b5a6978}}};
  const std::string bytes = summary.encode();
  const std::string expected(
      "EGNSUMM\n"
      "\x01\0\0\0\0\0\0\0"
      "\x08\x07\x06\x05\x04\x03\x02\x01"
      "\x01\0\0\0\0\0\0\0"
      "\x01\0\0\0\0\0\0\0"
      "\x00\x28\0\0\0\0\0\0"
      "\x00\x00\x2a\x36\xfe\x9c\x97\x17"
      "\x03\0\0\0\0\0\0\0"
      "\x00\x18\0\0\0\0\0\0"
      "\x88\x77\x66\x55\x44\x33\x22\x11"
      "\x00\xff\xee\xdd\xcc\xbb\xaa\x99"
      "\x78\x69\x5a\x4b\x3c\x2d\x1e\x0f"
      "\x05\0\0\0\0\0\0\0a.tar",
      12 * 8 + 13);
  CHECK(bytes == sealed(expected));
  CHECK(ShardSummary::parse(bytes, "x") == summary);
}

TEST_CASE("a damaged summary of shards is refused", "[io][formats][summary]") {
  const std::string bytes = ShardSummary{.shards = {{.record = {.name = "a.tar"}}, {}}}.encode();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of([&] { ShardSummary::parse(bytes.substr(0, size), "x"); }).first ==
          ErrorCode::kCorruptData);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    CAPTURE(bit);
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    CHECK(error_of([&] { ShardSummary::parse(flipped, "x"); }).first == ErrorCode::kCorruptData);
  }
  const auto changed = [&](std::size_t offset, char value) {
    std::string content = bytes.substr(0, bytes.size() - 8);
    content[offset] = value;
    return error_of([&] { ShardSummary::parse(sealed(content), "x"); });
  };
  CHECK(changed(8, 2).first == ErrorCode::kUnsupported);
  CHECK(contains(changed(3 * 8 + 6, 1).second, "more shards"));  // before memory is taken
  CHECK(contains(changed(7 * 8 + 7, '\xff').second, "a count that no shard can have"));
  CHECK(contains(changed(3 * 8, 1).second, "behind its last shard"));
}

TEST_CASE("a summary that does not fit counts as absent", "[io][formats][summary]") {
  const SummarizedFolder fixture;
  const std::string path = energon::shard_summary_path(fixture.file(".nv-meta"));
  bool is_ok = true;  // for lint
  SECTION("missing, as after an older prepare") { fs::remove(path); }
  SECTION("damaged") {
    change_byte(path, 60);
    is_ok = false;
  }
  SECTION("empty") {
    fs::resize_file(path, 0);
    is_ok = false;
  }
  SECTION("of another prepare") {
    const std::string old = read_file(path);
    prepare_folder(fixture.data, {.existing = Existing::kOverwrite});
    fixture.write(".nv-meta/shard_summary.bin", old);
  }
  SECTION("of another UUID") {
    fixture.write(".nv-meta/index.uuid", "00000000-0000-4000-8000-000000000000");
  }
  SECTION("of another .info.json") {
    fixture.write(".nv-meta/.info.json", read_file(fixture.file(".nv-meta/.info.json")) + "\n");
  }
  SECTION("without the record of shards") { fs::remove(fixture.file(".nv-meta/shard_record.bin")); }
  const ShardSet set = fixture.open();
  CHECK(is_checked(set));
  CHECK(set.shards == fixture.open(CheckShards::kAtOpening).shards);
  CHECK(energon::lint(fixture.data).ok() == is_ok);
}

TEST_CASE("a damaged record is an error also beside a summary", "[io][formats][summary]") {
  const SummarizedFolder fixture;
  change_byte(fixture.file(".nv-meta/shard_record.bin"), 60);
  CHECK(contains(error_of([&] { fixture.open(); }).second, "shard_record.bin"));
}

TEST_CASE("an update leaves the summary that a whole prepare leaves", "[io][formats][summary]") {
  const Checksums checksums = GENERATE(Checksums::kNone, Checksums::kWrite);
  const SummarizedFolder fixture(checksums);
  fixture.write("z.tar", make_shard(200, 7));
  prepare_folder(fixture.data, {.existing = Existing::kUpdate, .checksums = checksums});
  const auto updated = fixture.summary();
  REQUIRE(updated);
  CHECK(is_unchecked(fixture.open()));
  prepare_folder(fixture.data, {.existing = Existing::kOverwrite, .checksums = checksums});
  CHECK(fixture.summary()->shards == updated->shards);
  CHECK(updated->shards.size() == 3);
}

TEST_CASE("lint finds a summary that contradicts the other files", "[io][formats][summary]") {
  const SummarizedFolder fixture(Checksums::kWrite);
  ShardSummary summary = *fixture.summary();
  CHECK(energon::lint(fixture.data).ok());
  SECTION("a count") { summary.shards[0].sample_count = 99; }
  SECTION("a record") { summary.shards[1].record.header_digest = 1; }
  SECTION("a name") { summary.shards[1].record.name = "d/c.tar"; }
  SECTION("an end") { summary.shards[0].end_offset += 512; }
  SECTION("a digest of checksums") { summary.shards[1].checksum_digest += 1; }
  SECTION("a shard less") { summary.shards.pop_back(); }
  fixture.write(".nv-meta/shard_summary.bin", summary.encode());
  CHECK(energon::lint(fixture.data).problems.size() == 1);
}
