#include "media/av/av_container.h"

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/media/av/av_files.h"
#include "tests/media/av/expected.h"
#include "tests/support/error_of.h"

using energon::as_bytes;
using energon::AvContainer;
using energon::ErrorCode;
using energon::testing::av_file;
using energon::testing::error_of;
using energon::testing::ExpectedFile;
using energon::testing::kTinyFiles;

namespace {

std::string refusal_of(const std::string& content) {
  const auto bytes = as_bytes(content);
  return error_of([&] { check_av_container(energon::recognize_av_container(bytes), bytes); },
                  ErrorCode::kCorruptData);
}

}  // namespace

TEST_CASE("containers are recognized by their first bytes", "[media][av]") {
  const auto kind = [](const char* name) {
    const std::string content = av_file(name);
    return energon::recognize_av_container(as_bytes(content));
  };
  CHECK(kind("h264_aac.mp4") == AvContainer::kMp4);
  CHECK(kind("vp8.webm") == AvContainer::kMatroska);
  CHECK(kind("mpeg4.avi") == AvContainer::kRiff);
  CHECK(kind("mono.wav") == AvContainer::kRiff);
  CHECK(kind("mono.ogg") == AvContainer::kOgg);
  CHECK(kind("stereo24.flac") == AvContainer::kFlac);
  CHECK(kind("h264_aac.flv") == AvContainer::kFlv);
  CHECK(kind("mono.aac") == AvContainer::kAdts);
  CHECK(kind("mono.mp3") == AvContainer::kOther);
  CHECK(energon::recognize_av_container(as_bytes("fLaC")) == AvContainer::kOther);
}

TEST_CASE("complete files pass", "[media][av]") {
  for (const ExpectedFile& file : kTinyFiles) {
    INFO(file.name);
    CHECK(refusal_of(av_file(file.name)) == "no error");
  }
}

TEST_CASE("a container that ends too early is refused with the byte", "[media][av]") {
  for (const char* name : {"h264_aac.mp4", "vp8.webm", "mpeg4.avi", "mono.wav", "mono.ogg",
                           "h264_aac.flv", "mono.aac"}) {
    const std::string content = av_file(name);
    for (const std::size_t cut : {std::size_t{1}, std::size_t{7}, content.size() / 2}) {
      INFO(name << " without " << cut);
      CHECK_THAT(refusal_of(content.substr(0, content.size() - cut)),
                 Catch::Contains("truncated") || Catch::Contains("no moov box"));
    }
  }
}

TEST_CASE("recordings without a length pass", "[media][av]") {
  std::string wav = av_file("mono.wav");
  wav.replace(4, 4, "\xff\xff\xff\xff");
  CHECK(refusal_of(wav.substr(0, wav.size() - 9)) == "no error");
  std::string webm = av_file("vp8.webm");
  const std::size_t segment = webm.find("\x18\x53\x80\x67");
  webm.replace(segment + 4, 8, "\x01\xff\xff\xff\xff\xff\xff\xff");
  CHECK(refusal_of(webm.substr(0, webm.size() - 9)) == "no error");
}

TEST_CASE("damaged structures are refused", "[media][av]") {
  std::string ogg = av_file("mono.ogg");
  ogg[ogg.size() - 5] = static_cast<char>(ogg[ogg.size() - 5] ^ 4);
  CHECK_THAT(refusal_of(ogg), Catch::Contains("checksum"));
  std::string flv = av_file("h264_aac.flv");
  flv[13] = 7;  // of the first tag
  CHECK_THAT(refusal_of(flv), Catch::Contains("FLV tag of type 7"));
  std::string aac = av_file("mono.aac");
  aac[4] = static_cast<char>(aac[4] ^ 1);
  CHECK_THAT(refusal_of(aac), Catch::Contains("ADTS"));
  std::string mp4 = av_file("h264_aac.mp4");
  mp4[mp4.find("moov")] = 'x';
  CHECK_THAT(refusal_of(mp4), Catch::Contains("no moov box"));
}
