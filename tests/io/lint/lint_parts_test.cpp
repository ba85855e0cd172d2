// lint() for the contents of parts.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/lint/lint.h"
#include "io/lint/media_header.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using energon::as_bytes;
using energon::lint;
using energon::LintReport;
using energon::media_problem;
using energon::read_media_header;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using namespace std::string_literals;

namespace {

const std::string kPng = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x40\0\0\0\xF0"s;
const std::string kGif = "GIF89a\x40\x01\xF0\0"s;
const std::string kBmp = "BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x40\x01\0\0\x10\xFF\xFF\xFF"s;
// An application segment of 16 bytes, then the frame header.
const std::string kJpeg =
    "\xFF\xD8\xFF\xE0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xFF\xC0\0\x11\x08\0\xF0\x01\x40\x03"s;
const std::string kWebp = "RIFF\x1A\0\0\0WEBPVP8X\x0A\0\0\0\0\0\0\0\x3F\x01\0\xEF\0\0"s;
const std::string kWav =
    "RIFF\x2C\0\0\0WAVEfmt \x10\0\0\0\1\0\2\0\x80\x3E\0\0\0\xFA\0\0\4\0\x10\0data\0\xFA\0\0"s;

std::string problem(const std::string& extension, const std::string& bytes) {
  return media_problem(extension, as_bytes(bytes), bytes.size()).value_or("none");
}

LintReport lint_part(const std::string& name, const std::string& bytes) {
  const TempDir folder;
  folder.write("a.tar", TarBuilder().file("1.txt", "first").file("2." + name, bytes).end().text());
  return lint(folder.path());
}

}  // namespace

TEST_CASE("headers of images and audio are read", "[io][formats][media]") {
  for (const auto& [extension, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"png", kPng}, {"gif", kGif}, {"bmp", kBmp}, {"jpg", kJpeg}, {"webp", kWebp}}) {
    INFO(extension);
    const auto header = read_media_header(as_bytes(bytes));
    REQUIRE(header);
    CHECK(header->width == 320);
    CHECK(header->height == 240);
    CHECK(problem(extension, bytes) == "none");
  }
  const auto sound = read_media_header(as_bytes(kWav));
  REQUIRE(sound);
  CHECK(sound->sample_rate == 16000);
  CHECK(sound->channels == 2);
  CHECK(sound->seconds == Approx(1));
  CHECK(problem("wav", kWav) == "none");
}

TEST_CASE("a header truncated anywhere is damaged, and never read past its end",
          "[io][formats][media]") {
  for (const auto& [extension, bytes] :
       std::vector<std::pair<std::string, std::string>>{{"png", kPng},
                                                        {"gif", kGif},
                                                        {"bmp", kBmp},
                                                        {"jpeg", kJpeg},
                                                        {"webp", kWebp},
                                                        {"wav", kWav}}) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const std::string cut(bytes.data(), size);  // its end is the end of the memory
      INFO(extension << " of " << size << " bytes");
      CHECK(problem(extension, cut) != "none");
      // Unless the rest of the file was simply not read.
      if (size >= 16) {
        CHECK_FALSE(media_problem(extension, as_bytes(cut), 1 << 20));
      }
    }
  }
}

TEST_CASE(
    "a file that is not an image is reported with its first bytes, another format is accepted",
    "[io][formats][media]") {
  CHECK_THAT(problem("jpg", std::string(40, '\0')),
             Catch::Contains("is not a JPEG image") && Catch::Contains("00 00 00 00"));
  CHECK_THAT(problem("png", "<html>not found</html>"), Catch::Contains("is not a PNG image"));
  CHECK(problem("jpg", "") == "is empty: expected a JPEG image, found 0 bytes");
  CHECK_THAT(problem("jpg", "ab"), Catch::EndsWith("begins with 61 62"));
  CHECK(problem("jpg", kPng) == "none");
  std::string flat = kPng;
  flat.replace(16, 4, 4, '\0');
  CHECK_THAT(problem("png", flat), Catch::Contains("0 x 240"));
  std::string broken = kJpeg;
  broken[20] = 'x';  // the marker of the frame header
  CHECK_THAT(problem("jpg", broken), Catch::Contains("byte 20"));
  CHECK(energon::promises_media("webp"));
  CHECK_FALSE(energon::promises_media("txt"));
}

TEST_CASE("lint parses JSON parts and reads media headers", "[io][formats][lint]") {
  CHECK(lint_part("json", R"({"a": [1, 2.5, null, "x"]})").ok());
  CHECK(lint_part("png", kPng).ok());
  CHECK(lint_part("meta.JSON", "[]").ok());
  CHECK(lint_part("txt", "{").ok());
  const LintReport json = lint_part("json", R"({"a": [1, 2})");
  REQUIRE(json.problems.size() == 1);
  CHECK(json.problems[0].shard == "a.tar");
  CHECK(json.problems[0].key == "2");
  CHECK(json.problems[0].byte_offset == 1536);
  CHECK_THAT(json.problems[0].message, Catch::Contains("part 'json' is not valid JSON") &&
                                           Catch::Contains("byte 11 of 12, '}'"));
  CHECK_FALSE(lint_part("json", "").ok());
  CHECK_FALSE(lint_part("json", "{}\0{}"s).ok());
  CHECK_FALSE(lint_part("json", std::string(100'000, '[')).ok());
  const LintReport image = lint_part("seg.PNG", "no picture");
  REQUIRE(image.problems.size() == 1);
  CHECK_THAT(image.problems[0].message, Catch::Contains("part 'seg.PNG' is not a PNG image"));
}
