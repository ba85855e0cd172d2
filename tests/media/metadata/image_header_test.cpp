// Truncated, flipped or hostile headers are errors, never invalid memory accesses.

#include <cstdint>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "media/metadata/image_metadata.h"
#include "media/metadata/media_filter.h"
#include "tests/media/metadata/media_folder.h"

using energon::as_bytes;
using energon::Error;
using energon::ErrorCode;
using energon::MediaKind;
using energon::read_image_metadata;
using energon::to_media_json;
using energon::testing::vector_files;

namespace {

// The metadata as JSON, or "" for an Error in the data.
std::string metadata_of(const std::string& image) {
  try {
    return to_media_json(read_image_metadata(as_bytes(image)));
  } catch (const Error& error) {
    CHECK((error.code() == ErrorCode::kCorruptData || error.code() == ErrorCode::kUnsupported ||
           error.code() == ErrorCode::kResourceExhausted));
    CHECK_FALSE(error.message().empty());
    return "";
  }
}

std::string message_of(const std::string& image) {
  try {
    read_image_metadata(as_bytes(image));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool is_image(const std::string& name, const std::string& content) {
  return energon::media_kind_of_name(name) == MediaKind::kImage && content.size() > 20;
}

}  // namespace

TEST_CASE("a truncated header gives the same metadata or an error", "[media][metadata]") {
  for (const auto& [name, content] : vector_files()) {
    if (!is_image(name, content)) {
      continue;
    }
    const std::string whole = metadata_of(content);
    CAPTURE(name);
    int readable = 0;
    for (std::size_t size = 0; size < content.size(); ++size) {
      const std::string cut = metadata_of(content.substr(0, size));
      if (!cut.empty()) {
        ++readable;
        CHECK(cut == whole);
      }
    }
    if (name != "damaged.png" && name.starts_with("png")) {
      CHECK(readable > 0);  // pixels are not needed
    }
  }
}

TEST_CASE("flipped bytes of headers give metadata or an error", "[media][metadata]") {
  std::mt19937 random(7);
  for (const auto& [name, content] : vector_files()) {
    if (!is_image(name, content)) {
      continue;
    }
    CAPTURE(name);
    for (int i = 0; i < 300; ++i) {
      std::string flipped = content;
      for (unsigned flips = random() % 3 + 1; flips > 0; --flips) {
        flipped[random() % std::min<std::size_t>(flipped.size(), 200)] ^=
            static_cast<char>(1U << random() % 8);
      }
      metadata_of(flipped);
    }
  }
}

TEST_CASE("the place and the value of a bad header are named", "[media][metadata]") {
  const std::string head("II*\0", 4);
  CHECK_THAT(message_of(head), Catch::Contains("the TIFF ends at byte 4"));
  CHECK_THAT(message_of(head + "\xFF\xFF\xFF\xFF"),
             Catch::Contains("continues at byte 4294967295"));
  const std::string many = head + std::string("\x08\0\0\0\xFF\xFF", 6);
  CHECK_THAT(message_of(many), Catch::Contains("a directory of 65535 tags"));
  const std::string counted =
      head + std::string("\x08\0\0\0\x01\0\0\x01\x03\0\xFF\xFF\xFF\xFF\0\0\0\0", 18);
  CHECK_THAT(message_of(counted), Catch::Contains("tag 256 has 4294967295 values of type 3"));
  CHECK_THAT(message_of("BM" + std::string(60, '\0')),
             Catch::Contains("BMP images are not supported"));
  std::string ended = vector_files().at("gif-color.gif");
  ended[25] = ';';
  CHECK_THAT(message_of(ended), Catch::Contains("the GIF has no image: byte 25 is 0x3b"));
}

TEST_CASE("images with too many pixels are refused", "[media][metadata]") {
  std::string image = vector_files().at("tiff-big.tif");
  CHECK(read_image_metadata(as_bytes(image), {.max_pixels = 24}).width == 6);
  CHECK_THROWS_AS(read_image_metadata(as_bytes(image), {.max_pixels = 23}), Error);
  CHECK_THROWS_AS(read_image_metadata(as_bytes(vector_files().at("png-L.png")), {.max_pixels = 5}),
                  Error);
}
