#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "media/image/image_decoder.h"
#include "tests/media/image/image_file.h"
#include "tests/media/image/vectors.h"
#include "tests/support/error_of.h"

namespace {

using energon::ErrorCode;
using energon::testing::error_of;
using energon::testing::image_file;
using energon::testing::survives;

// The message of decoding `encoded`, which must fail with `code`.
std::string failure_of(const std::string& encoded, ErrorCode code = ErrorCode::kCorruptData,
                       const energon::DecodeLimits& limits = {}) {
  return error_of([&] { energon::testing::decoded(encoded, {.limits = limits}); }, code);
}

// The number of bytes that determine the first image.
std::size_t needed_bytes(const std::string& name, const std::string& encoded) {
  if (name == "part.gif" || name == "two.tiff" || name == "animated.webp") {
    return encoded.size() / 4;  // has more than one image
  }
  if (name.ends_with(".gif")) {
    return encoded.size() - 4;  // the end code, the end of the data, the trailer
  }
  if (name.ends_with(".webp")) {
    return encoded.size() - (name == "exif5.webp" ? 60 : 2);
  }
  // The directory of a TIFF ends with the offset of the next one.
  return name.ends_with(".tiff") ? encoded.size() - 16 : encoded.size();
}

std::string with_byte(std::string text, std::size_t at, std::uint8_t value) {
  text.at(at) = static_cast<char>(value);
  return text;
}

}  // namespace

TEST_CASE("an image that ends too early is an error", "[media][image]") {
  for (const auto& image : energon::testing::kImageVectors) {
    CAPTURE(image.name);
    const std::string encoded = image_file(image.name);
    const std::size_t needed = needed_bytes(image.name, encoded);
    for (std::size_t size = 0; size < encoded.size(); ++size) {
      const bool whole = survives(encoded.substr(0, size));
      if (size < needed && whole) {
        FAIL_CHECK(image.name << " with " << size << " of " << encoded.size() << " bytes");
        break;
      }
    }
    CHECK(survives(encoded));
  }
}

TEST_CASE("changed bytes are harmless", "[media][image]") {
  for (const auto& image : energon::testing::kImageVectors) {
    CAPTURE(image.name);
    const std::string encoded = image_file(image.name);
    for (std::size_t at = 0; at < encoded.size(); ++at) {
      const auto byte = static_cast<std::uint8_t>(encoded[at]);
      for (const int changed : {byte ^ (1 << at % 8), 0x00, 0xFF}) {
        survives(with_byte(encoded, at, static_cast<std::uint8_t>(changed)));
      }
    }
  }
  SUCCEED("no crash, and nothing but Error was thrown");
}

TEST_CASE("messages contain the text of the codec and the place", "[media][image]") {
  const auto most_of = [](const char* name) {
    const std::string encoded = image_file(name);
    return encoded.substr(0, encoded.size() * 9 / 10);
  };
  CHECK_THAT(failure_of(most_of("420.jpg")),
             Catch::Contains("the JPEG is damaged") && Catch::Contains("Premature end of JPEG"));
  CHECK_THAT(failure_of(most_of("444.jpg")),
             Catch::Matches(".* at row [1-9][0-9]* of 37, byte .*"));
  CHECK_THAT(failure_of(most_of("rgb16.png")),
             Catch::Contains("the PNG is damaged") && Catch::Contains("the data ends too early"));
  CHECK_THAT(failure_of(most_of("lossy.webp")),
             Catch::Matches("the WebP of [0-9]+ bytes is damaged at row [1-9][0-9]* of 37: .*"));
  CHECK_THAT(failure_of(most_of("local.gif")),
             Catch::Contains("the GIF is damaged at row") && Catch::Contains("of "));
  CHECK_THAT(failure_of(most_of("lzw.tiff")), Catch::Contains("of the TIFF"));
  const std::string flipped = image_file("rgb8.png");
  CHECK_THAT(failure_of(with_byte(flipped, flipped.size() - 14, 0x55)), Catch::Contains("CRC"));
}

TEST_CASE("data that is not an image, or of another kind, is named", "[media][image]") {
  CHECK(failure_of("") == "the image is empty: it has 0 bytes");
  CHECK(failure_of("<html>") ==
        "6 bytes that begin with 3c 68 74 6d 6c 3e are not a JPEG, PNG, WebP, GIF or TIFF");
  CHECK(failure_of("BM123456", ErrorCode::kUnsupported) ==
        "BMP images are not supported; convert to JPEG, PNG, WebP, GIF or TIFF");
  const std::string heic = std::string("\0\0\0\x18", 4) + "ftypheic";
  CHECK_THAT(failure_of(heic, ErrorCode::kUnsupported), Catch::Contains("HEIC"));
  std::string twelve = image_file("420.jpg");
  twelve.at(twelve.find("\xFF\xC0") + 4) = 12;
  CHECK_THAT(failure_of(twelve, ErrorCode::kUnsupported), Catch::Contains("precision 12"));
  CHECK_THAT(failure_of(with_byte(image_file("rgb8.tiff"), 0, 'X')),
             Catch::Contains("begin with 58"));
}

TEST_CASE("limits are checked before pixels are decoded", "[media][image]") {
  for (const auto& image : energon::testing::kImageVectors) {
    INFO(image.name);
    const std::string encoded = image_file(image.name);
    const std::uint64_t pixels =
        static_cast<std::uint64_t>(image.width) * static_cast<std::uint64_t>(image.height);
    CHECK_THAT(failure_of(encoded, ErrorCode::kResourceExhausted, {.max_pixels = pixels - 1}),
               Catch::Contains("max_pixels"));
    CHECK_THAT(failure_of(encoded, ErrorCode::kResourceExhausted, {.max_bytes = 12 * pixels - 1}),
               Catch::Contains("max_bytes"));
    CHECK(failure_of(encoded, ErrorCode::kInternal, {.max_pixels = pixels}) == "no error");
  }
}

TEST_CASE("sizes that a header only declares are refused", "[media][image]") {
  std::string jpeg = image_file("420.jpg");
  jpeg.replace(jpeg.find("\xFF\xC0") + 5, 4, "\xFF\xDC\xFF\xDC");
  CHECK_THAT(failure_of(jpeg, ErrorCode::kResourceExhausted),
             Catch::Contains("the JPEG has 65500 x 65500 pixels"));
  std::string gif = image_file("global.gif");
  gif.replace(6, 4, "\xFF\xFF\xFF\xFF");
  CHECK_THAT(failure_of(gif, ErrorCode::kResourceExhausted), Catch::Contains("65535 x 65535"));
  gif.replace(6, 4, std::string("\x05\0\x05\0", 4));
  CHECK_THAT(failure_of(gif), Catch::Contains("19 x 13 pixels at (0, 0) is not inside"));
}

TEST_CASE("a progressive JPEG with very many scans is refused", "[media][image]") {
  const std::string encoded = image_file("spectral.jpg");
  const std::size_t first = encoded.find("\xFF\xDA");
  // The second and last scan of the file, which may be repeated.
  const std::size_t begin = encoded.find("\xFF\xC4", first);
  const std::size_t end = encoded.size() - 2;
  std::string scans;
  for (int i = 0; i < 600; ++i) {
    scans += encoded.substr(begin, end - begin);
  }
  const std::string bomb = encoded.substr(0, end) + scans + encoded.substr(end);
  const std::string message = failure_of(bomb, ErrorCode::kResourceExhausted);
  CHECK_THAT(message, Catch::Contains("more than 500 scans"));
}

TEST_CASE("warnings that cannot change pixels pass", "[media][image]") {
  std::string encoded = image_file("420.jpg");
  const energon::ImageOptions options;
  const std::string pixels = energon::testing::decoded(encoded, options);
  CHECK(energon::testing::decoded(encoded + "rubbish", options) == pixels);
  std::string revision = encoded;
  revision.at(revision.find("JFIF") + 5) = 9;
  CHECK(energon::testing::decoded(revision, options) == pixels);
  std::string padded = encoded;
  padded.insert(padded.size() - 2, 5, '\0');  // before the end marker
  CHECK(energon::testing::decoded(padded, options) == pixels);
}

TEST_CASE("damage about which libtiff only warns is an error", "[media][image]") {
  std::string encoded = image_file("jpeg.tiff");
  // The JPEG of the strip ends here.
  encoded.replace(encoded.find("\xFF\xDA") + 30, 2, "\xFF\xD9");
  CHECK_THAT(failure_of(encoded), Catch::Contains("row 0 of 12 of the TIFF") &&
                                      Catch::Contains("premature end of data segment"));
}

TEST_CASE("a WebP that is not an animation has no frames", "[media][image]") {
  // The place and the size of a frame that is far larger than the image and far outside it.
  const std::string frame =
      std::string("ANMF\x10\0\0\0", 8) + std::string(12, '\xFF') + std::string(4, '\0');
  constexpr std::size_t kBehindVp8x = 30;
  for (const char* name : {"lossy.webp", "lossy_alpha.webp"}) {
    INFO(name);
    const std::string still = image_file(name);
    std::string with_frame = still;
    with_frame.insert(with_frame.find("VP8X") == 12 ? kBehindVp8x : still.size(), frame);
    with_frame.at(4) = static_cast<char>((with_frame.size() - 8) & 0xFF);
    with_frame.at(5) = static_cast<char>((with_frame.size() - 8) >> 8);
    CHECK(energon::testing::decoded(with_frame, {}) == energon::testing::decoded(still, {}));
    CHECK(energon::probe_image(energon::as_bytes(with_frame)).frames == 1);
  }
}
