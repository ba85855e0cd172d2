#include "io/dataset/shard_record.h"

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/dataset/dataset_folder.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/lint/lint.h"
#include "io/store/file_store.h"
#include "tests/io/dataset/recorded_folder.h"
#include "tests/io/shards.h"
#include "tests/support/temp_dir.h"

using energon::CheckShards;
using energon::Checksums;
using energon::ErrorCode;
using energon::Existing;
using energon::open_split;
using energon::OpenOptions;
using energon::read_file;
using energon::ShardRecord;
using energon::ShardRecords;
using energon::testing::change_byte;
using energon::testing::contains;
using energon::testing::error_of;
using energon::testing::gzip;
using energon::testing::is_checked;
using energon::testing::is_unchecked;
using energon::testing::make_shard;
using energon::testing::prepare_folder;
using energon::testing::RecordedFolder;
using energon::testing::TempDir;

namespace fs = std::filesystem;

namespace {

// Replaces the file at `path`, which keeps its modification time, unless it is moved.
void replace(const std::string& path, const std::string& content,
             fs::file_time_type::duration by = {}) {
  const auto time = fs::last_write_time(path);
  const fs::path file(path);
  fs::remove(file);
  fs::path fresh = file;
  fresh += ".new";
  energon::write_file_atomically(fresh.string(), energon::as_bytes(content));
  fs::rename(fresh, file);
  fs::last_write_time(file, time + by);
}

constexpr std::chrono::seconds kLater{100};

std::string sealed(std::string content) {
  const std::uint64_t digest = energon::xxh3_64(energon::as_bytes(content));
  return content.append(reinterpret_cast<const char*>(&digest), sizeof(digest));
}

}  // namespace

TEST_CASE("the record of shards has the bytes of its documentation", "[io][formats][record]") {
  const ShardRecords records("u-1", 0x0102030405060708,
                             {{.name = "a.tar",
                               .size_bytes = 10240,
                               .mtime_ns = 1'700'000'000'000'000'000,
                               .sample_count = 3,
                               .end_offset = 6144,
                               .header_digest = 0x1122334455667788,
                               .index_digest = 0x99aabbccddeeff00,
                               .has_checksums = true,
                               .checksum_digest = 0x0f1e2d3c4b5a6978}});
  const std::string bytes = records.encode();
  const std::string expected(
      "EGNSHRD\n"
      "\x01\0\0\0\0\0\0\0"
      "\x08\x07\x06\x05\x04\x03\x02\x01"
      "\x03\0\0\0\0\0\0\0u-1"
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
      3 * 8 + 11 + 9 * 8 + 13);
  CHECK(bytes == sealed(expected));
  const ShardRecords read = ShardRecords::parse(bytes, "x");
  CHECK(read.shards() == records.shards());
  CHECK(read.uuid() == "u-1");
  CHECK(read.set_digest() == 0x0102030405060708);
  CHECK(read.has_checksums());
  CHECK(read.find("a.tar")->size_bytes == 10240);
  CHECK(read.find("b.tar") == nullptr);
}

TEST_CASE("a damaged record of shards is refused", "[io][formats][record]") {
  const std::string bytes = ShardRecords("u", 0, {{.name = "a.tar"}, {.name = "b.tar"}}).encode();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of([&] { ShardRecords::parse(bytes.substr(0, size), "x"); }).first ==
          ErrorCode::kCorruptData);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    CAPTURE(bit);
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    CHECK(error_of([&] { ShardRecords::parse(flipped, "x"); }).first == ErrorCode::kCorruptData);
  }
  // Sealed again: counts and sizes are checked before memory is allocated.
  const auto changed = [&](std::size_t offset, char value) {
    std::string content = bytes.substr(0, bytes.size() - 8);
    content[offset] = value;
    return error_of([&] { ShardRecords::parse(sealed(content), "x"); });
  };
  constexpr std::size_t kCount = 3 * 8 + 9;  // after the UUID "u"
  CHECK(changed(8, 2).first == ErrorCode::kUnsupported);
  CHECK(contains(changed(kCount + 6, 1).second, "more shards"));
  CHECK(contains(changed(kCount + 4 * 8 + 7, '\xff').second, "a count that no shard can have"));
  CHECK(contains(changed(kCount, 1).second, "after its last shard"));
}

TEST_CASE("prepare records the properties of each shard", "[io][formats][record]") {
  const RecordedFolder fixture(GENERATE(Checksums::kNone, Checksums::kWrite));
  const std::string meta = fixture.file(".nv-meta");
  const auto records = ShardRecords::load(meta, *energon::read_dataset_info(meta));
  REQUIRE(records);
  CHECK(records->has_checksums() == fs::exists(fixture.file("a.tar.xxh3")));
  REQUIRE(records->shards().size() == 2);
  const auto identity = energon::FileSource(fixture.file("d/b.tar")).identity();
  CHECK(records->shards()[1].name == "d/b.tar");
  CHECK(records->shards()[1].size_bytes == identity.size_bytes);
  CHECK(records->shards()[1].mtime_ns == identity.mtime_ns);
  const auto set = open_split(fixture.data);
  CHECK(set.warnings.empty());
  for (const auto& shard : set.shards) {
    CAPTURE(shard.name);
    CHECK(shard.index_digest == energon::xxh3_64(energon::as_bytes(read_file(shard.index_path))));
  }
}

TEST_CASE("a shard replaced by one of the same layout is refused at opening",
          "[io][formats][record]") {
  const RecordedFolder fixture;
  replace(fixture.file("a.tar"), make_shard(500, 100), kLater);  // other keys
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "shard 'a.tar' is not the one that was prepared"));
  CHECK(contains(message, "energon prepare --force-overwrite"));
  const auto report = energon::lint(fixture.data);
  CHECK(std::any_of(report.problems.begin(), report.problems.end(), [](const auto& problem) {
    return problem.shard == "a.tar" && contains(problem.message, "not the one that was prepared");
  }));
  prepare_folder(fixture.data, {.existing = Existing::kOverwrite});
  CHECK(fixture.open(CheckShards::kAtOpening).shards.size() == 2);
}

TEST_CASE("a copy of a shard with another time is accepted", "[io][formats][record]") {
  const RecordedFolder fixture;
  replace(fixture.file("a.tar"), make_shard(0, 100), -kLater);
  CHECK(fixture.open(CheckShards::kAtOpening).shards.size() == 2);
  CHECK(energon::lint(fixture.data).ok());
}

TEST_CASE("the headers of a copy with another time are compared once", "[io][formats][record]") {
  const RecordedFolder fixture;
  replace(fixture.file("a.tar"), make_shard(0, 100), -kLater);
  CHECK(fixture.open(CheckShards::kAtOpening).shards.size() == 2);
  replace(fixture.file("a.tar"), make_shard(500, 100));  // at the copy's time
  CHECK(fixture.open(CheckShards::kAtOpening).shards.size() == 2);
  CHECK_NOTHROW(
      energon::WebdatasetFileStore(fixture.data, fixture.root.file("cache")).get("000101.txt"));
  CHECK_FALSE(energon::lint(fixture.data).ok());  // reads everything
  const auto with_cache = [&](const std::string& cache) {
    return error_of([&] { open_split(fixture.data, {.cache_dir = cache}); }).first;
  };
  CHECK(with_cache(fixture.root.file("other")) == ErrorCode::kCorruptData);
  // If nothing can be stored, a copy is compared each time.
  replace(fixture.file("a.tar"), make_shard(0, 100));
  fixture.root.write("file", "");
  CHECK_NOTHROW(open_split(fixture.data, {.cache_dir = fixture.root.file("file")}));
  replace(fixture.file("a.tar"), make_shard(500, 100), 2 * kLater);
  CHECK(fixture.open_error().first == ErrorCode::kCorruptData);
}

TEST_CASE("a copy whose time was rounded down is the recorded file", "[io][formats][record]") {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const ShardRecord record{.name = "a", .mtime_ns = 1'700'000'000 * kSecond + 123'456'789};
  const auto is_recorded = [&](std::int64_t nanoseconds) {
    return energon::has_recorded_time(record, {.mtime_ns = 1'700'000'000 * kSecond + nanoseconds});
  };
  for (const int kept : {0, 123'000'000, 123'456'000, 123'456'700, 123'456'789}) {
    CAPTURE(kept);
    CHECK(is_recorded(kept));
  }
  for (const int other : {123'456'788, 123'456'790, 100'000'000, 999'999'999, -1}) {
    CAPTURE(other);
    CHECK_FALSE(is_recorded(other));
  }
}

TEST_CASE("one other header among those that are compared is enough", "[io][formats][record]") {
  constexpr std::size_t kSampleBytes = 5 * 512;  // of make_shard()
  for (const std::size_t sample : {0, 99}) {
    CAPTURE(sample);
    const RecordedFolder fixture;
    std::string tar = make_shard(0, 100);
    tar[sample * kSampleBytes + 136] = '7';  // a digit of its time; the checksum is not examined
    replace(fixture.file("a.tar"), tar, kLater);
    CHECK(fixture.open_error().first == ErrorCode::kCorruptData);
  }
}

TEST_CASE("a shard of another size is refused, whatever its time", "[io][formats][record]") {
  const RecordedFolder fixture;
  replace(fixture.file("d/b.tar"), make_shard(100, 5) + std::string(512, '\0'));
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "shard 'd/b.tar' is not the one"));
}

TEST_CASE("a compressed shard is compared as its file, its headers as they expand",
          "[io][formats][record]") {
  const TempDir root;
  const std::string data = root.file("data");
  const OpenOptions options{.cache_dir = root.file("cache")};
  root.write("data/a.tgz", gzip(make_shard(0, 3)));
  prepare_folder(data, {.cache_dir = root.file("cache")});
  CHECK(open_split(data, options).shards[0].index_digest);
  replace(data + "/a.tgz", gzip(make_shard(0, 3)), kLater);
  CHECK(open_split(data, options).shards.size() == 1);
  replace(data + "/a.tgz", gzip(make_shard(7, 3)), 2 * kLater);
  CHECK(contains(error_of([&] { open_split(data, options); }).second, "'a.tgz' is not the one"));
}

TEST_CASE("a file store refuses a shard that was replaced", "[io][formats][record]") {
  const RecordedFolder fixture;
  replace(fixture.file("a.tar"), make_shard(500, 100), kLater);
  energon::WebdatasetFileStore store(fixture.data, fixture.root.file("cache"));
  CHECK(
      contains(error_of([&] { store.get("000007.txt"); }).second, "not the one that was prepared"));
  CHECK_NOTHROW(store.get("000101.txt"));
}

TEST_CASE("one missing checksum file is an error that names it", "[io][formats][record]") {
  const RecordedFolder fixture(Checksums::kWrite);
  fs::remove(fixture.file("d/b.tar.xxh3"));
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kNotFound);
  CHECK(contains(message, "b.tar.xxh3"));
  // The shard is intact: a policy that leaves out broken shards does not apply.
  CHECK(error_of([&] {
          open_split(fixture.data, {.broken_shards = energon::BrokenShards::kSkip});
        }).first == ErrorCode::kNotFound);
  const auto set = open_split(fixture.data, {.needs_checksums = false});
  CHECK_FALSE(set.shards[0].checksum_path.empty());
  CHECK(set.shards[1].checksum_path.empty());
  const auto report = energon::lint(fixture.data);
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].shard == "d/b.tar");
  CHECK(contains(report.problems[0].message, "b.tar.xxh3"));
}

TEST_CASE("folders without a record, or with that of another prepare, are read as before",
          "[io][formats][record]") {
  const RecordedFolder fixture(Checksums::kWrite);
  SECTION("by an older version") { fs::remove(fixture.file(".nv-meta/shard_record.bin")); }
  SECTION("prepared by Energon since") {
    energon::write_file_atomically(fixture.file(".nv-meta/index.uuid"),
                                   energon::as_bytes("00000000-0000-4000-8000-000000000000"));
  }
  SECTION("prepared since by an Energon that writes no index.uuid") {
    fs::remove(fixture.file(".nv-meta/index.uuid"));
  }
  SECTION("prepared since by an Energon that left index.uuid") {
    const bool is_named = GENERATE(true, false);
    auto info = *energon::read_dataset_info(fixture.file(".nv-meta"));
    info.energon_version = is_named ? std::optional("7.4.1") : std::nullopt;
    energon::write_file_atomically(fixture.file(".nv-meta/.info.json"),
                                   energon::as_bytes(energon::to_info_json(info)));
    change_byte(fixture.file(".nv-meta/shard_record.bin"), 60);  // and is not read
  }
  fs::remove(fixture.file("d/b.tar.xxh3"));
  replace(fixture.file("a.tar"), make_shard(500, 100), kLater);
  const auto set = open_split(fixture.data);
  CHECK_FALSE(set.shards[0].index_digest);
  CHECK(set.shards[1].checksum_path.empty());
}

TEST_CASE("a damaged record is an error that names the file, not a dataset without one",
          "[io][formats][record]") {
  const RecordedFolder fixture;
  change_byte(fixture.file(".nv-meta/shard_record.bin"), 60);
  const auto [code, message] = fixture.open_error();
  CHECK(code == ErrorCode::kCorruptData);
  CHECK(contains(message, "shard_record.bin"));
  CHECK_FALSE(energon::lint(fixture.data).ok());
}

TEST_CASE("shards are examined if the record belongs to another .info.json",
          "[io][formats][record]") {
  const RecordedFolder fixture;
  const std::string path = energon::shard_record_path(fixture.file(".nv-meta"));
  SECTION("missing") { fs::remove(path); }
  SECTION("of another prepare") {
    const std::string old = energon::read_file(path);
    prepare_folder(fixture.data, {.existing = energon::Existing::kOverwrite});
    fixture.write(".nv-meta/shard_record.bin", old);
  }
  SECTION("of another UUID") {
    fixture.write(".nv-meta/index.uuid", "00000000-0000-4000-8000-000000000000");
  }
  SECTION("of another .info.json") {
    fixture.write(".nv-meta/.info.json",
                  energon::read_file(fixture.file(".nv-meta/.info.json")) + "\n");
  }
  const energon::ShardSet set = fixture.open();
  CHECK(is_checked(set));
  CHECK(set.shards == fixture.open(CheckShards::kAtOpening).shards);
  CHECK(energon::lint(fixture.data).ok());
}

TEST_CASE("an update leaves the same record as a full prepare", "[io][formats][record]") {
  const Checksums checksums = GENERATE(Checksums::kNone, Checksums::kWrite);
  const RecordedFolder fixture(checksums);
  fixture.write("z.tar", make_shard(200, 7));
  prepare_folder(fixture.data, {.existing = energon::Existing::kUpdate, .checksums = checksums});
  const auto updated = fixture.records();
  REQUIRE(updated);
  CHECK(is_unchecked(fixture.open()));
  prepare_folder(fixture.data, {.existing = energon::Existing::kOverwrite, .checksums = checksums});
  CHECK(fixture.records()->shards() == updated->shards());
  CHECK(updated->shards().size() == 3);
}

TEST_CASE("lint finds a record that contradicts the other files", "[io][formats][record]") {
  const RecordedFolder fixture(Checksums::kWrite);
  const auto records = fixture.records();
  REQUIRE(records);
  std::vector<ShardRecord> shards = records->shards();
  CHECK(energon::lint(fixture.data).ok());
  SECTION("a count") { shards[0].sample_count = 99; }
  SECTION("a name") { shards[1].name = "d/c.tar"; }
  SECTION("an end") { shards[0].end_offset += 512; }
  SECTION("a digest of checksums") { shards[1].checksum_digest += 1; }
  SECTION("one shard less") { shards.pop_back(); }
  fixture.write(".nv-meta/shard_record.bin",
                ShardRecords(records->uuid(), records->set_digest(), shards).encode());
  CHECK(energon::lint(fixture.data).problems.size() == 1);
}
