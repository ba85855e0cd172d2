#include "media/transform/color.h"

#include <catch2/catch.hpp>

#include "tests/media/transform/noise_image.h"
#include "tests/media/transform/vectors.h"
#include "tests/support/error_of.h"

using energon::CallRng;
using energon::ColorChange;
using energon::ColorJitter;
using energon::JitterDraw;
using energon::testing::noise;
using energon::testing::Pixels;

namespace {

void recolor(std::string_view change, double factor, Pixels& pixels) {
  if (change == "brightness") {
    energon::adjust_brightness(pixels, factor);
  } else if (change == "contrast") {
    energon::adjust_contrast(pixels, 3, factor);
  } else if (change == "saturation") {
    energon::adjust_saturation(pixels, 3, factor);
  } else if (change == "hue") {
    energon::adjust_hue(pixels, 3, factor);
  } else {
    energon::make_gray(pixels, 3);
  }
}

template <class Body>
std::string color_refusal(const Body& body) {
  return energon::testing::error_of(body, energon::ErrorCode::kInvalidArgument);
}

}  // namespace

TEST_CASE("colors are within 1 level of torchvision's, with all instruction sets") {
  energon::testing::with_all_instructions([] {
    for (const auto& expected : energon::testing::kRecolored) {
      Pixels pixels = noise(9, 7, 3);
      recolor(expected.change, expected.factor, pixels);
      INFO(expected.change << " by " << expected.factor);
      CHECK(energon::testing::largest_difference<std::uint8_t>(
                pixels, energon::testing::from_vector(expected.result)) <= 1);
    }
  });
}

TEST_CASE("neutral factors leave all colors unchanged") {
  const Pixels pixels = noise(67, 31, 3);
  for (const auto& [change, factor] : {std::pair("brightness", 1.0), std::pair("contrast", 1.0),
                                       std::pair("saturation", 1.0), std::pair("hue", 0.0)}) {
    Pixels changed = pixels;
    recolor(change, factor, changed);
    INFO(change);
    CHECK(energon::testing::largest_difference<std::uint8_t>(changed, pixels) <= 0);
  }
}

TEST_CASE("a third of the circle exchanges the channels") {
  const Pixels pixels = noise(67, 31, 3);
  Pixels turned = pixels;
  energon::adjust_hue(turned, 3, 1.0 / 3);
  Pixels exchanged = pixels;
  for (std::size_t i = 0; i < pixels.size(); i += 3) {
    exchanged[i] = pixels[i + 2];
    exchanged[i + 1] = pixels[i];
    exchanged[i + 2] = pixels[i + 1];
  }
  CHECK(turned == exchanged);
}

TEST_CASE("factors of all sizes clamp, with all instruction sets") {
  for (const double factor : {2.0, 100.0, 127.9, 128.0, 200.5, 256.0, 300.0, 1e9}) {
    CAPTURE(factor);
    energon::testing::with_all_instructions([&] {
      const Pixels pixels = noise(67, 31, 3);
      Pixels gray = pixels;
      energon::make_gray(gray, 3);
      Pixels saturated = pixels;
      energon::adjust_saturation(saturated, 3, factor);
      Pixels bright = pixels;
      energon::adjust_brightness(bright, factor);
      for (std::size_t i = 0; i < pixels.size(); ++i) {
        CAPTURE(i);
        const auto level = static_cast<double>(pixels[i]);
        const auto middle = static_cast<double>(gray[i]);
        const double more = std::clamp(middle + (level - middle) * factor, 0.0, 255.0);
        REQUIRE(std::abs(static_cast<double>(saturated[i]) - more) <= 1);
        REQUIRE(std::abs(static_cast<double>(bright[i]) - std::min(level * factor, 255.0)) <= 1);
      }
    });
  }
}

TEST_CASE("gray images have only brightness and contrast") {
  const Pixels pixels = noise(67, 31, 1);
  Pixels changed = pixels;
  energon::adjust_saturation(changed, 1, 0);
  energon::adjust_hue(changed, 1, 0.4);
  energon::make_gray(changed, 1);
  CHECK(changed == pixels);
  energon::adjust_contrast(changed, 1, 0);
  CHECK(changed == Pixels(pixels.size(), changed[0]));
  energon::adjust_brightness(changed, 1e9);
  CHECK(changed == Pixels(pixels.size(), std::byte{255}));
}

TEST_CASE("gray levels are the same for images of every size") {
  for (std::int64_t count = 1; count < 70; ++count) {
    CAPTURE(count);
    const Pixels pixels = noise(count, 1, 3);
    Pixels gray(static_cast<std::size_t>(count));
    energon::rgb_to_gray(pixels, gray);
    for (std::size_t i = 0; i < gray.size(); ++i) {
      CAPTURE(i);
      const double level = 0.2989 * static_cast<double>(pixels[i * 3]) +
                           0.587 * static_cast<double>(pixels[i * 3 + 1]) +
                           0.114 * static_cast<double>(pixels[i * 3 + 2]);
      REQUIRE(std::abs(static_cast<double>(gray[i]) + 0.5 - level) < 0.51);
    }
  }
}

TEST_CASE("color factors out of range are refused") {
  Pixels pixels = noise(3, 3, 3);
  CHECK(color_refusal([&] { energon::adjust_brightness(pixels, -0.5); }) ==
        "a factor of -0.5 for the brightness: must be 0 or more");
  CHECK_THAT(color_refusal([&] { energon::adjust_contrast(pixels, 3, NAN); }),
             Catch::Contains("for the contrast"));
  CHECK_THAT(color_refusal([&] { energon::adjust_saturation(pixels, 3, INFINITY); }),
             Catch::Contains("for the saturation"));
  CHECK(color_refusal([&] { energon::adjust_hue(pixels, 3, 0.51); }) ==
        "a hue rotation by 0.51 of the circle: must be -0.5 to 0.5");
  CHECK_THAT(color_refusal([&] { energon::adjust_hue(pixels, 4, 0.1); }),
             Catch::Contains("27 bytes with 4 channels"));
  CHECK_THAT(color_refusal([&] { energon::make_gray(std::span(pixels).first(26), 3); }),
             Catch::Contains("26 bytes with 3 channels"));
  Pixels gray(8);
  CHECK_THAT(color_refusal([&] { energon::rgb_to_gray(pixels, gray); }),
             Catch::Contains("9 pixels need 9 gray levels"));
}

TEST_CASE("jitter draws fourteen words: the order, and factors within their ranges") {
  CallRng rng(7);
  std::array<int, 4> first = {};
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const JitterDraw drawn =
        energon::draw_jitter(rng, {.brightness = 0.4, .contrast = 2, .saturation = 0, .hue = 0.1});
    ++first[static_cast<std::size_t>(drawn.order[0])];
    CHECK((drawn.brightness >= 0.6 && drawn.brightness < 1.4));
    CHECK((drawn.contrast >= 0 && drawn.contrast < 3));
    CHECK(drawn.saturation == 1);
    CHECK((drawn.hue >= -0.1 && drawn.hue < 0.1));
  }
  for (const int count : first) {
    CAPTURE(count);
    CHECK((count > 420 && count < 580));
  }
  CallRng drawn(3);
  CallRng skipped(3);
  energon::draw_jitter(drawn, {});
  for (int word = 0; word < 14; ++word) {
    skipped();
  }
  CHECK(drawn() == skipped());
}

TEST_CASE("jitter applies the changes in the drawn order") {
  const Pixels pixels = noise(9, 7, 3);
  JitterDraw drawn;
  drawn.order = {ColorChange::kHue, ColorChange::kContrast, ColorChange::kBrightness,
                 ColorChange::kSaturation};
  drawn.brightness = 1.5;
  drawn.contrast = 0.3;
  drawn.hue = 0.2;
  Pixels expected = pixels;
  energon::adjust_hue(expected, 3, 0.2);
  energon::adjust_contrast(expected, 3, 0.3);
  energon::adjust_brightness(expected, 1.5);
  Pixels result = pixels;
  energon::apply_jitter(drawn, result, 3);
  CHECK(result == expected);
  CallRng rng(1);
  CHECK(color_refusal([&] { energon::draw_jitter(rng, {.hue = 0.6}); }) ==
        "ColorJitter::hue of 0.6: must be 0 to 0.5");
  CHECK_THAT(color_refusal([&] { energon::draw_jitter(rng, {.brightness = -1}); }),
             Catch::StartsWith("ColorJitter::brightness"));
}
