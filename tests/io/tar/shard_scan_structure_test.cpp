// Odd tars, E1 to E28 and E42: damaged headers, ends, sizes, extension headers, and members of
// all types. The others are in shard_scan_test.cpp.

#include <fstream>

#include <catch2/catch.hpp>

#include "tests/io/tar/tar_verbs.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test
using Catch::Contains;
using std::string_view_literals::operator""sv;

namespace {

// `first`, a hole up to `offset`, then `second`.
void write_with_hole(const std::string& path, const std::string& first, std::uint64_t offset,
                     const std::string& second) {
  std::ofstream file(path, std::ios::binary);
  file << first;
  file.seekp(static_cast<std::streamoff>(offset));
  file << second;
}

}  // namespace

TEST_CASE("E1: a bad header checksum is an error at its offset", "[io][tar][scan]") {
  check_refused(one_sample().header({.name = "b.txt", .checksum_field = "000001"}).end(),
                kAfterOneSample, "checksum");
}

TEST_CASE("E2: a flipped bit in a name is an error", "[io][tar][scan]") {
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
  CHECK(scan_error(tar, kStrictScan).context().byte_offset == tar.size());
}

TEST_CASE("E6: one zero block is a valid end", "[io][tar][scan]") {
  CHECK(scan(one_sample().zero_blocks(1).text(), kStrictScan).warnings.empty());
}

TEST_CASE("E7: data after a single zero block is an error", "[io][tar][scan]") {
  check_refused(one_sample().zero_blocks(1).file("b.txt", "1").end(), kAfterOneSample + 512,
                "single zero block");
}

TEST_CASE("E8: garbage after the end is a warning, or an error if strict", "[io][tar][scan]") {
  const std::string tar = one_sample().end().raw("appended by mistake").text();
  CHECK_THAT(only_warning(scan(tar)), Contains("after the end"));
  CHECK(scan_error(tar, kStrictScan).code() == ErrorCode::kCorruptData);
}

TEST_CASE("E9: an archive after the end is an error", "[io][tar][scan]") {
  check_refused(one_sample().end().file("b.txt", "1").end(), kAfterOneSample + 1024,
                "another archive");
  check_refused(one_sample().end().data("junk").file("b.txt", "1").end(), kAfterOneSample + 1536,
                "another archive");
}

TEST_CASE("E10: a garbage block between members is an error", "[io][tar][scan]") {
  check_refused(one_sample().raw(std::string(512, 'g')).file("b.txt", "1").end(), kAfterOneSample,
                "not a tar header");
}

TEST_CASE("E11: a pax size overrides the header's", "[io][tar][scan]") {
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
                kAfterOneSample, "the limit of 1048576");
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
