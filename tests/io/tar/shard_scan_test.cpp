// One case for each kind of odd tar (E1 to E44), and how samples are grouped.

#include "io/tar/shard_scan.h"

#include <clocale>
#include <fstream>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/io/tar/tar_verbs.h"
#include "tests/support/shared_data.h"
#include "tests/support/tar_builder.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test
using Catch::Contains;
using std::string_view_literals::operator""sv;

namespace {

constexpr ShardScanOptions kStrict{.strictness = ScanStrictness::kStrict};

TarBuilder one_sample() { return TarBuilder().file("a.txt", "hello").file("a.cls", "7"); }

// Refused as corrupt, with the offset of the second header and the reason.
void check_refused(const TarBuilder& tar, std::uint64_t offset, const std::string& reason) {
  const Error error = scan_error(tar.text());
  CHECK(error.code() == ErrorCode::kCorruptData);
  CHECK(error.context().byte_offset == offset);
  CHECK(error.context().path);
  CHECK_THAT(error.what(), Contains(reason));
}

constexpr std::uint64_t kAfterOneSample = 2048;

std::string only_warning(const ShardScan& scan) {
  REQUIRE(scan.warnings.size() == 1);
  return scan.warnings.front();
}

// `first`, a hole up to `offset`, then `second`.
void write_with_hole(const std::string& path, const std::string& first, std::uint64_t offset,
                     const std::string& second) {
  std::ofstream file(path, std::ios::binary);
  file << first;
  file.seekp(static_cast<std::streamoff>(offset));
  file << second;
}

}  // namespace

TEST_CASE("consecutive members with one key are one sample", "[io][tar][scan]") {
  const ShardScan result =
      scan(TarBuilder().file("a.txt", "hello").file("a.cls", "7").file("b.txt", "!").end().text());
  REQUIRE(result.samples.size() == 2);
  CHECK(result.samples[0] == ScannedSample{"a", 0, 2048, {{"txt", 512, 5}, {"cls", 1536, 1}}});
  CHECK(result.samples[1] == ScannedSample{"b", 2048, 1024, {{"txt", 2560, 1}}});
  CHECK(result.end_offset == 3072);
  CHECK(result.warnings.empty());
  CHECK(result.skipped == SkippedMembers{});
}

TEST_CASE("members of no sample are counted and lie within the sample before them",
          "[io][tar][scan]") {
  const ShardScan result = scan(TarBuilder()
                                    .directory("d/")
                                    .file("d/a.txt", "1")
                                    .file("README", "2")
                                    .file("__meta__/x.json", "3")
                                    .file("d/b.txt", "4")
                                    .end()
                                    .text());
  CHECK(outline(result) == "d/a(txt) d/b(txt)");
  CHECK(result.samples[0].offset == 512);
  CHECK(result.samples[0].size == 3 * 1024);
  CHECK(result.skipped == SkippedMembers{.directories = 1, .by_name = 2});
}

TEST_CASE("a sample begins at its first extension header", "[io][tar][scan]") {
  const ShardScan result = scan(TarBuilder()
                                    .file("a.txt", "1")
                                    .pax({{"path", "b.txt"}})
                                    .file("s", "2")
                                    .gnu_long_name("c.txt")
                                    .gnu_file("s", "3")
                                    .end()
                                    .text());
  CHECK(outline(result) == "a(txt) b(txt) c(txt)");
  CHECK(result.samples[1].offset == 1024);
  CHECK(result.samples[2].offset == 3072);
}

TEST_CASE("every sample's range can be walked alone", "[io][tar][scan]") {
  const std::string tar = TarBuilder()
                              .directory("d/")
                              .file("a.txt", "hello")
                              .file("README", "x")
                              .pax({{"path", "b.txt"}})
                              .file("s", "world")
                              .end()
                              .text();
  for (const ScannedSample& sample : scan(tar).samples) {
    TarWalker walker(as_bytes(std::string_view(tar).substr(sample.offset, sample.size)),
                     sample.offset);
    const TarMember member = walker.next().value();
    CHECK(member.data_offset == sample.parts[0].content_offset);
    CHECK(member.size == sample.parts[0].size);
    CHECK_NOTHROW(all_members(walker));
  }
}

TEST_CASE("E1: a bad header checksum is an error at its offset", "[io][tar][scan]") {
  check_refused(one_sample().header({.name = "b.txt", .checksum_field = "000001"}).end(),
                kAfterOneSample, "checksum");
}

TEST_CASE("E2: a bit that flips in a name is an error", "[io][tar][scan]") {
  std::string tar = one_sample().file("b.txt", "1").end().text();
  tar[kAfterOneSample] ^= 1;
  CHECK(scan_error(tar).context().byte_offset == kAfterOneSample);
}

TEST_CASE("E3: truncation in a body is an error", "[io][tar][scan]") {
  const std::string tar = one_sample().text();
  const Error error = scan_error(tar.substr(0, 1538));
  CHECK(error.code() == ErrorCode::kCorruptData);
  CHECK(error.context().byte_offset == 1024);
  CHECK_THAT(error.what(), Contains("truncated") && Contains("a.cls"));
}

TEST_CASE("E4: truncation in a header is an error", "[io][tar][scan]") {
  check_refused(TarBuilder().raw(one_sample().text().substr(0, 1024 + 100)), 1024, "truncated");
}

TEST_CASE("E5: a missing end is a warning, or an error if strict", "[io][tar][scan]") {
  const std::string tar = one_sample().text();
  CHECK_THAT(only_warning(scan(tar)), Contains("no end-of-archive block"));
  CHECK(scan(tar).end_offset == tar.size());
  CHECK(scan_error(tar, kStrict).context().byte_offset == tar.size());
}

TEST_CASE("E6: one zero block is a good end", "[io][tar][scan]") {
  CHECK(scan(one_sample().zero_blocks(1).text(), kStrict).warnings.empty());
}

TEST_CASE("E7: data after a single zero block is an error", "[io][tar][scan]") {
  check_refused(one_sample().zero_blocks(1).file("b.txt", "1").end(), kAfterOneSample + 512,
                "single zero block");
}

TEST_CASE("E8: garbage behind the end is a warning, or an error if strict", "[io][tar][scan]") {
  const std::string tar = one_sample().end().raw("appended by mistake").text();
  CHECK_THAT(only_warning(scan(tar)), Contains("behind the end"));
  CHECK(scan_error(tar, kStrict).code() == ErrorCode::kCorruptData);
}

TEST_CASE("E9: an archive behind the end is an error", "[io][tar][scan]") {
  check_refused(one_sample().end().file("b.txt", "1").end(), kAfterOneSample + 1024,
                "another archive");
  check_refused(one_sample().end().data("junk").file("b.txt", "1").end(), kAfterOneSample + 1536,
                "another archive");
}

TEST_CASE("E10: a garbage block between members is an error", "[io][tar][scan]") {
  check_refused(one_sample().raw(std::string(512, 'g')).file("b.txt", "1").end(), kAfterOneSample,
                "not a tar header");
}

TEST_CASE("E11: a pax size counts, not the header's", "[io][tar][scan]") {
  const ShardScan result = scan(TarBuilder()
                                    .pax({{"size", "5"}})
                                    .header({.name = "a.txt"})
                                    .data("hello")
                                    .file("b.txt", "1")
                                    .end()
                                    .text());
  CHECK(outline(result) == "a(txt) b(txt)");
  CHECK(result.samples[0].parts[0] == ScannedPart{"txt", 1536, 5});
}

TEST_CASE("E12: a negative size is refused", "[io][tar][scan]") {
  check_refused(one_sample().header({.name = "b.txt", .size_field = base256(-5)}).end(),
                kAfterOneSample, "negative");
  check_refused(one_sample().pax({{"size", "-5"}}).file("b.txt", "").end(), kAfterOneSample + 512,
                "pax size");
}

TEST_CASE("E13: a size of 2^62 is refused before anything is allocated", "[io][tar][scan]") {
  check_refused(
      one_sample().header({.name = "b.txt", .size_field = base256(std::int64_t{1} << 62)}).end(),
      kAfterOneSample, "truncated");
  check_refused(one_sample().pax({{"size", "4611686018427387904"}}).file("b.txt", "").end(),
                kAfterOneSample + 1024, "truncated");
  check_refused(one_sample().pax({{"size", "9223372036854775807"}}).file("b.txt", "").end(),
                kAfterOneSample + 1024, "truncated");
  check_refused(one_sample().pax({{"size", "9223372036854775808"}}).file("b.txt", "").end(),
                kAfterOneSample + 512, "2^63");
}

TEST_CASE("E14: members of more than 8 GiB are read", "[io][tar][scan]") {
  constexpr std::uint64_t kSize = std::uint64_t{9} << 30;
  const bool by_pax = GENERATE(false, true);
  TarBuilder first;
  if (by_pax) {
    first.pax({{"size", std::to_string(kSize)}}).header({.name = "a.bin"});
  } else {
    first.header({.name = "a.bin", .size_field = base256(kSize)});
  }
  const TempDir folder;
  const std::string path = folder.file("large.tar");
  write_with_hole(path, first.text(), first.size() + kSize,
                  TarBuilder().file("b.txt", "1").end().text());
  const ShardScan result = scan_shard(FileSource(path));
  CHECK(outline(result) == "a(bin) b(txt)");
  CHECK(result.samples[0].parts[0] == ScannedPart{"bin", first.size(), kSize});
  CHECK(result.samples[1].offset == first.size() + kSize);
}

TEST_CASE("E15: a size that is not octal is refused", "[io][tar][scan]") {
  check_refused(one_sample().header({.name = "b.txt", .size_field = "0000000zz00"}).end(),
                kAfterOneSample, "not an octal number");
}

TEST_CASE("E16: a wrong length of a pax record is refused", "[io][tar][scan]") {
  check_refused(one_sample().pax_raw("18 path=long.txt\n").file("s.txt", "").end(),
                kAfterOneSample + 512, "pax record");
}

TEST_CASE("E17: a NUL in a pax path is refused", "[io][tar][scan]") {
  check_refused(one_sample().pax({{"path", "ev\0il.txt"sv}}).file("s.txt", "").end(),
                kAfterOneSample + 512, "ev\\x00il.txt");
}

TEST_CASE("E18: an empty pax path is refused", "[io][tar][scan]") {
  check_refused(one_sample().pax({{"path", ""}}).file("s.txt", "").end(), kAfterOneSample + 512,
                "empty");
}

TEST_CASE("E19: a global pax header may not set a path or a size", "[io][tar][scan]") {
  check_refused(one_sample().pax_global({{"path", "x.txt"}}).file("s.txt", "").end(),
                kAfterOneSample + 512, "global");
  check_refused(one_sample().pax_global({{"size", "5"}}).file("s.txt", "").end(),
                kAfterOneSample + 512, "global");
  CHECK(outline(scan(
            TarBuilder().pax_global({{"comment", "deadbeef"}}).file("a.txt", "").end().text())) ==
        "a(txt)");
}

TEST_CASE("E20: long names of every dialect are read", "[io][tar][scan]") {
  const std::string key(300, 'k');
  const std::string prefix(155, 'p');
  CHECK(outline(scan(TarBuilder().gnu_long_name(key + ".txt").gnu_file("s", "").end().text())) ==
        key + "(txt)");
  CHECK(outline(scan(TarBuilder().pax({{"path", key + ".txt"}}).file("s", "").end().text())) ==
        key + "(txt)");
  CHECK(outline(scan(TarBuilder().header({.name = "k.txt", .prefix = prefix}).end().text())) ==
        prefix + "/k(txt)");
}

TEST_CASE("E21: a GNU long name of 8 GiB is refused", "[io][tar][scan]") {
  check_refused(one_sample()
                    .header({.name = "././@LongLink",
                             .type = 'L',
                             .magic = kGnuMagic,
                             .size_field = base256(std::int64_t{8} << 30)})
                    .end(),
                kAfterOneSample, "at most 1048576");
}

TEST_CASE("E22: a hard link is an error, never an empty part", "[io][tar][scan]") {
  check_refused(one_sample().hard_link("b.txt", "a.txt").end(), kAfterOneSample, "hard link");
}

TEST_CASE("E23: a hard link with a size is an error", "[io][tar][scan]") {
  check_refused(one_sample().header({.name = "b.txt", .size = 5, .type = '1'}).data("hello").end(),
                kAfterOneSample, "hard link with a size");
}

TEST_CASE("E24: symbolic links are skipped and counted", "[io][tar][scan]") {
  const ShardScan result = scan(one_sample().symbolic_link("b.txt", "/etc/passwd").end().text());
  CHECK(outline(result) == "a(txt cls)");
  CHECK(result.skipped == SkippedMembers{.symbolic_links = 1});
}

TEST_CASE("E25: FIFOs, devices and directories are skipped and counted", "[io][tar][scan]") {
  const ShardScan result = scan(one_sample()
                                    .fifo("p.txt")
                                    .header({.name = "dev.txt", .type = '3'})
                                    .header({.name = "d.txt/", .size = 77, .type = '5'})
                                    .file("b.txt", "1")
                                    .end()
                                    .text());
  CHECK(outline(result) == "a(txt cls) b(txt)");
  CHECK(result.skipped == SkippedMembers{.directories = 1, .special_files = 2});
}

TEST_CASE("E26: a member of unknown type is a regular file, with a warning", "[io][tar][scan]") {
  const ShardScan result = scan(
      TarBuilder().header({.name = "a.txt", .size = 5, .type = 'Q'}).data("hello").end().text());
  CHECK(outline(result) == "a(txt)");
  CHECK_THAT(only_warning(result), Contains("unknown type") && Contains("a.txt"));
}

TEST_CASE("E27: v7 headers and contiguous files are read", "[io][tar][scan]") {
  const ShardScan result = scan(TarBuilder()
                                    .v7_file("a.txt", "1")
                                    .header({.name = "b.txt", .type = '\0'})
                                    .header({.name = "c.txt", .type = '7'})
                                    .end()
                                    .text());
  CHECK(outline(result) == "a(txt) b(txt) c(txt)");
  CHECK(result.warnings.empty());
}

TEST_CASE("E28: sparse members are refused", "[io][tar][scan]") {
  const auto tar = GENERATE(values<TarBuilder>(
      {TarBuilder().gnu_sparse_file("a.bin").end(),
       TarBuilder()
           .pax({{"GNU.sparse.size", "9"}, {"GNU.sparse.numblocks", "0"}})
           .file("a.bin", "")
           .end(),
       TarBuilder()
           .pax({{"GNU.sparse.map", "0,1"}, {"GNU.sparse.size", "9"}})
           .file("a.bin", "x")
           .end(),
       TarBuilder()
           .pax(
               {{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}, {"GNU.sparse.name", "a.bin"}})
           .file("s", "0\n")
           .end()}));
  const Error error = scan_error(tar.text());
  CHECK(error.code() == ErrorCode::kUnsupported);
  CHECK_THAT(error.what(), Contains("a.bin") && Contains("sparse"));
}

TEST_CASE("E29: a part that comes twice in a sample is an error", "[io][tar][scan]") {
  const Error error = scan_error(one_sample().file("a.txt", "again").end().text());
  CHECK(error.context().sample_key == "a");
  CHECK_THAT(error.what(), Contains("'txt' comes twice") && Contains("512") && Contains("2560"));
}

TEST_CASE("E30: interleaved keys are an error", "[io][tar][scan]") {
  const Error error = scan_error(TarBuilder()
                                     .file("a.txt", "1")
                                     .file("b.txt", "2")
                                     .file("a.cls", "3")
                                     .file("b.cls", "4")
                                     .end()
                                     .text());
  CHECK(error.code() == ErrorCode::kCorruptData);
  CHECK(error.context().sample_key == "a");
  CHECK_THAT(error.what(), Contains("bytes 0 and 2048"));
}

TEST_CASE("E31: a key that comes again later is an error with both offsets", "[io][tar][scan]") {
  const Error error = scan_error(one_sample().file("b.txt", "1").file("a.txt", "2").end().text());
  CHECK(error.context().byte_offset == 3072);
  CHECK_THAT(error.what(), Contains("key 'a' comes again") && Contains("bytes 0 and 3072"));
}

TEST_CASE("E32: a sample has the parts it has", "[io][tar][scan]") {
  CHECK(outline(scan(one_sample().file("b.txt", "1").end().text())) == "a(txt cls) b(txt)");
}

TEST_CASE("E33: parts that differ only in case are kept apart, with a warning", "[io][tar][scan]") {
  const ShardScan result = scan(TarBuilder().file("a.TXT", "1").file("a.txt", "2").end().text());
  CHECK(outline(result) == "a(TXT txt)");
  CHECK_THAT(only_warning(result), Contains("upper and lower case"));
}

TEST_CASE("E34: odd names follow Energon's rule", "[io][tar][scan]") {
  const ShardScan result = scan(TarBuilder()
                                    .file("README", "")
                                    .file("a.", "")
                                    .file("..txt", "")
                                    .file(".hidden", "")
                                    .file("d/.x.txt", "")
                                    .end()
                                    .text());
  CHECK(outline(result) == "a() d/(x.txt)");
  CHECK(result.samples[0].parts[0].name.empty());
  CHECK(result.skipped == SkippedMembers{.by_name = 3});
}

TEST_CASE("E35: what macOS and git add is skipped and counted", "[io][tar][scan]") {
  const ShardScan result = scan(TarBuilder()
                                    .file("d/._a.txt", "")
                                    .file("d/a.txt", "")
                                    .file("d/._b.txt", "")
                                    .file("d/b.txt", "")
                                    .file("__MACOSX/d/._a.txt", "")
                                    .file("d/.DS_Store", "")
                                    .file("pax_global_header", "")
                                    .file("__meta__/x.json", "")
                                    .end()
                                    .text());
  CHECK(outline(result) == "d/a(txt) d/b(txt)");
  CHECK(result.skipped == SkippedMembers{.by_name = 6});
}

TEST_CASE("E36: './a' and 'a' differ, with a warning", "[io][tar][scan]") {
  const ShardScan result =
      scan(TarBuilder().file("./a.txt", "").file("d.v1/b.seg.png", "").end().text());
  CHECK(outline(result) == "./a(txt) d.v1/b(seg.png)");
  CHECK_THAT(only_warning(result), Contains("'./'"));
}

TEST_CASE("E37: parts with names kept for the loader are refused", "[io][tar][scan]") {
  const auto name = GENERATE("x.__key__", "x.__url__", "x.__restore_key__.txt");
  const Error error = scan_error(one_sample().file(name, "spoofed").end().text());
  CHECK(error.code() == ErrorCode::kCorruptData);
  CHECK(error.context().sample_key == "x");
}

TEST_CASE("E38: keys are bytes, and escaped in messages", "[io][tar][scan]") {
  const ShardScan result = scan(TarBuilder()
                                    .file("\xe9.txt", "")
                                    .file("e\xcc\x81.txt", "")
                                    .file("\xc3\xa9.txt", "")
                                    .pax({{"path", "p\xc3\xa9.txt"}})
                                    .file("s", "")
                                    .pax({{"hdrcharset", "BINARY"}, {"path", "q\xe9.txt"}})
                                    .file("s", "")
                                    .end()
                                    .text());
  CHECK(outline(result) == "\xe9(txt) e\xcc\x81(txt) \xc3\xa9(txt) p\xc3\xa9(txt) q\xe9(txt)");
  CHECK_THAT(scan_error(TarBuilder().hard_link("\x1b[2J.txt", "x").end().text()).what(),
             Contains("\\x1b[2J.txt"));
}

TEST_CASE("a scan does not depend on the locale", "[io][tar][scan]") {
  // libarchive converts pax names to it: e with an accent in two code points becomes one.
  const std::string tar =
      TarBuilder().pax({{"path", "e\xcc\x81.txt"}}).file("s", "").file("b.txt", "").end().text();
  const std::string before = std::setlocale(LC_CTYPE, nullptr);
  const ShardScan in_c = scan(tar);
  const bool has_utf8 = std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr;
  const ShardScan in_utf8 = scan(tar);
  std::setlocale(LC_CTYPE, before.c_str());
  CHECK(has_utf8);
  CHECK(outline(in_c) == "e\xcc\x81(txt) b(txt)");
  CHECK(in_utf8.samples == in_c.samples);
}

TEST_CASE("E39: an empty part is a part", "[io][tar][scan]") {
  const ShardScan result = scan(TarBuilder().file("a.txt", "").file("a.cls", "").end().text());
  CHECK(result.samples[0].parts == std::vector<ScannedPart>{{"txt", 512, 0}, {"cls", 1024, 0}});
}

TEST_CASE("E40: names that lead out of a folder are just keys", "[io][tar][scan]") {
  CHECK(outline(scan(TarBuilder().file("../../x.txt", "").file("/abs.txt", "").end().text())) ==
        "../../x(txt) /abs(txt)");
}

TEST_CASE("E41: a sample of too many or too large parts is refused", "[io][tar][scan]") {
  TarBuilder many;
  for (int i = 0; i < 11; ++i) {
    many.file(fmt::format("a.{}", i), "");
  }
  many.end();
  CHECK(scan(many.text(), {.max_parts_per_sample = 11}).samples.size() == 1);
  const Error error = scan_error(many.text(), {.max_parts_per_sample = 10});
  CHECK(error.code() == ErrorCode::kResourceExhausted);
  CHECK_THAT(error.what(), Contains("max_parts_per_sample"));
  const Error too_large = scan_error(one_sample().end().text(), {.max_member_bytes = 4});
  CHECK(too_large.code() == ErrorCode::kResourceExhausted);
  CHECK(too_large.context().sample_key == "a");
}

TEST_CASE("E42: extension headers of more than 1 MiB are refused", "[io][tar][scan]") {
  const std::string value(600'000, 'v');
  CHECK(outline(scan(TarBuilder().pax({{"SCHILY.acl", value}}).file("a.txt", "").end().text())) ==
        "a(txt)");
  check_refused(one_sample().pax({{"SCHILY.acl", value + value}}).file("b.txt", "").end(),
                kAfterOneSample, "extension header");
  const std::string name(600'000, 'n');
  CHECK(scan_error(one_sample()
                       .gnu_long_name(name)
                       .pax({{"SCHILY.acl", value}})
                       .file("b.txt", "")
                       .end()
                       .text())
            .code() == ErrorCode::kCorruptData);
}

TEST_CASE("E44: what is no tar is named", "[io][tar][scan]") {
  const auto row = GENERATE(table<std::string, std::string>({
      {"<!DOCTYPE html><html>404", "HTML"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:", "git-lfs"},
      {"PK\x03\x04", "zip"},
      {"\x1f\x8b\x08", "gzip"},
      {"\x28\xb5\x2f\xfd", "zstd"},
      {"\xff\xd8\xff\xe0", "JPEG"},
  }));
  const std::string filling = GENERATE(std::string(), std::string(5000, 'x'));
  check_refused(TarBuilder().raw(std::get<0>(row) + filling), 0, std::get<1>(row));
}

TEST_CASE("an empty file is an error, an empty archive a warning", "[io][tar][scan]") {
  check_refused(TarBuilder(), 0, "it is empty");
  const ShardScan result = scan(TarBuilder().end().text());
  CHECK(result.samples.empty());
  CHECK(result.end_offset == 0);
  CHECK_THAT(only_warning(result), Contains("no samples"));
}

TEST_CASE("real shards are scanned", "[io][tar][scan]") {
  const auto folder = shared_data("webdataset");
  if (!folder) {
    return skipped();
  }
  const auto [name, count, part] = GENERATE(table<std::string, std::size_t, std::string>({
      {"testgz.tar", 1000, "txt.gz"},
      {"tendata.tar", 100, "ten"},
      {"mpdata.tar", 100, "mp"},
      {"compressed.tar", 3, "txt.gz"},
  }));
  const ShardScan result = scan_shard(FileSource(*folder + "/" + name), kStrict);
  CHECK(result.samples.size() == count);
  for (const ScannedSample& sample : result.samples) {
    REQUIRE(sample.parts.size() == 1);
    REQUIRE(sample.parts[0].name == part);
  }
}
