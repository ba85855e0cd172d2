#include <string_view>

#include <catch2/catch.hpp>

#include "media/decode/sample_decoder.h"

using energon::as_bytes;
using energon::content_kind_of_bytes;
using energon::content_kind_of_name;
using energon::ContentKind;

using namespace std::string_view_literals;  // NOLINT: texts with NUL

TEST_CASE("the text after the last dot of a part determines its content", "[media][content_kind]") {
  CHECK(content_kind_of_name("jpg") == ContentKind::kImage);
  CHECK(content_kind_of_name("left.seg.PNG") == ContentKind::kImage);
  CHECK(content_kind_of_name("mp4") == ContentKind::kAv);
  CHECK(content_kind_of_name("caption.txt") == ContentKind::kText);
  CHECK(content_kind_of_name("cls") == ContentKind::kInteger);
  CHECK(content_kind_of_name("msg") == ContentKind::kMessagePack);
  CHECK(content_kind_of_name("pth") == ContentKind::kTorchFile);
  CHECK_FALSE(content_kind_of_name("jpg.bin").has_value());
  CHECK_FALSE(content_kind_of_name("").has_value());
  for (const std::string_view pickle : {"pkl", "pickle", "pyd"}) {
    CAPTURE(pickle);
    CHECK_FALSE(content_kind_of_name(pickle).has_value());
  }
}

TEST_CASE("signatures determine the content of a part", "[media][content_kind]") {
  CHECK(content_kind_of_bytes(as_bytes("\xFF\xD8\xFF\xE0")) == ContentKind::kImage);
  CHECK(content_kind_of_bytes(as_bytes("RIFF....WEBPVP8 ")) == ContentKind::kImage);
  CHECK(content_kind_of_bytes(as_bytes("RIFF....WAVEfmt ")) == ContentKind::kAv);
  CHECK(content_kind_of_bytes(as_bytes("\0\0\0\x20"
                                       "ftypisom"sv)) == ContentKind::kAv);
  CHECK(content_kind_of_bytes(as_bytes("\x93NUMPY")) == ContentKind::kNpy);
  CHECK(content_kind_of_bytes(as_bytes("II+\0\x08"sv)) == ContentKind::kImage);  // BigTIFF
  CHECK(content_kind_of_bytes(as_bytes("MM\0+\0"sv)) == ContentKind::kImage);
  CHECK_FALSE(content_kind_of_bytes(as_bytes("RIFF....")).has_value());
  for (const char* text : {"the big WAVE", "he owns WEBPages", "camera: AVI file"}) {
    CAPTURE(text);
    CHECK_FALSE(content_kind_of_bytes(as_bytes(text)).has_value());
  }
  CHECK_FALSE(content_kind_of_bytes(as_bytes("text")).has_value());
  CHECK_FALSE(content_kind_of_bytes({}).has_value());
}

TEST_CASE("a suffix .gz is removed from the name", "[media][content_kind]") {
  CHECK(energon::name_inside_gzip("txt.gz") == "txt");
  CHECK_FALSE(energon::name_inside_gzip("gz").has_value());
  CHECK_FALSE(energon::name_inside_gzip("txt").has_value());
}
