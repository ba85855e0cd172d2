// How samples are grouped, and odd tars E29 to E44: names, keys and parts. Those with odd headers
// are in shard_scan_structure_test.cpp.

#include "io/tar/shard_scan.h"

#include <clocale>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/io/tar/tar_verbs.h"
#include "tests/support/shared_data.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test
using Catch::Contains;

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

TEST_CASE("members of no sample are counted and belong to the range of the sample before them",
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

TEST_CASE("a sample starts at its first extension header", "[io][tar][scan]") {
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
    CAPTURE(sample.key);
    TarWalker walker(as_bytes(std::string_view(tar).substr(sample.offset, sample.size)),
                     sample.offset);
    const TarMember member = walker.next().value();
    CHECK(member.data_offset == sample.parts[0].content_offset);
    CHECK(member.size == sample.parts[0].size);
    CHECK_NOTHROW(all_members(walker));
  }
}

TEST_CASE("E29: a duplicate part in a sample is an error", "[io][tar][scan]") {
  const Error error = scan_error(one_sample().file("a.txt", "again").end().text());
  CHECK(error.context().sample_key == "a");
  CHECK_THAT(error.what(), Contains("'txt' appears twice") && Contains("512") && Contains("2560"));
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

TEST_CASE("E31: a key that repeats later is an error with both offsets", "[io][tar][scan]") {
  const Error error = scan_error(one_sample().file("b.txt", "1").file("a.txt", "2").end().text());
  CHECK(error.context().byte_offset == 3072);
  CHECK_THAT(error.what(), Contains("duplicate key 'a'") && Contains("bytes 0 and 3072"));
}

TEST_CASE("E32: samples may have different parts", "[io][tar][scan]") {
  CHECK(outline(scan(one_sample().file("b.txt", "1").end().text())) == "a(txt cls) b(txt)");
}

TEST_CASE("E33: parts that differ only in case are distinct, with a warning", "[io][tar][scan]") {
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

TEST_CASE("E35: files that macOS and git add are skipped and counted", "[io][tar][scan]") {
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

TEST_CASE("E37: parts with names reserved for the loader are refused", "[io][tar][scan]") {
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
  // libarchive converts pax names to the locale: e with an accent in two code points becomes one.
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

TEST_CASE("E44: a file that is not a tar is described", "[io][tar][scan]") {
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
  const ShardScan result = scan_shard(FileSource(*folder + "/" + name), kStrictScan);
  CHECK(result.samples.size() == count);
  for (const ScannedSample& sample : result.samples) {
    CAPTURE(sample.key);
    REQUIRE(sample.parts.size() == 1);
    REQUIRE(sample.parts[0].name == part);
  }
}
