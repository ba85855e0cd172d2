#include "media/transform/sound.h"

#include <cmath>
#include <numbers>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/error_of.h"

using energon::ErrorCode;
using energon::ResampleQuality;

namespace {

// Channel c is a sine of (c + 1) * 440 Hz.
std::vector<float> tones(std::int64_t frames, int channels, std::int64_t rate) {
  std::vector<float> samples;
  for (std::int64_t i = 0; i < frames; ++i) {
    for (int c = 0; c < channels; ++c) {
      samples.push_back(
          static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * 440 * (c + 1) *
                                            static_cast<double>(i) / static_cast<double>(rate))));
    }
  }
  return samples;
}

template <class Number>
std::vector<float> as_float_samples(const std::vector<Number>& samples) {
  std::vector<float> result(samples.size());
  energon::to_float_samples(samples, result);
  return result;
}

std::string refused_rates(std::int64_t frames, std::int64_t from, std::int64_t to,
                          ErrorCode code = ErrorCode::kInvalidArgument) {
  return energon::testing::error_of([&] { energon::resampled_frames(frames, from, to); }, code);
}

}  // namespace

TEST_CASE("integer samples become numbers from -1 to below 1") {
  CHECK(as_float_samples<std::int16_t>({-32768, -1, 0, 16384, 32767}) ==
        std::vector<float>{-1, -0x1p-15F, 0, 0.5F, 1 - 0x1p-15F});
  CHECK(as_float_samples<std::int32_t>({INT32_MIN, 0, 1 << 30, INT32_MAX}) ==
        std::vector<float>{-1, 0, 0.5F, 0x1.fffffep-1F});
  CHECK(as_float_samples<std::uint8_t>({0, 128, 192, 255}) ==
        std::vector<float>{-1, 0, 0.5F, 127 / 128.0F});
}

TEST_CASE("mono is the mean of the channels, also in place") {
  std::vector<float> samples = {1, 2, 6, -1, -2, 0};
  energon::to_mono(samples, 3, std::span(samples).first(2));
  CHECK(samples[0] == 3);
  CHECK(samples[1] == -1);
}

TEST_CASE("resampled tones are tones of the new rate, at the same time") {
  for (const auto& [from_rate, to_rate] : {std::pair(44100, 16000), std::pair(16000, 44100),
                                           std::pair(48000, 16000), std::pair(22050, 24000)}) {
    CAPTURE(from_rate, to_rate);
    const std::vector<float> sound = tones(from_rate / 2 + 7, 2, from_rate);
    const std::int64_t frames = energon::resampled_frames(from_rate / 2 + 7, from_rate, to_rate);
    std::vector<float> result(static_cast<std::size_t>(frames) * 2);
    energon::resample(sound, 2, from_rate, to_rate, result);
    const std::vector<float> expected = tones(frames, 2, to_rate);
    // The edges ring: before and behind the sound is silence.
    for (std::size_t i = 2000; i < result.size() - 2000; ++i) {
      CAPTURE(i);
      REQUIRE(std::abs(result[i] - expected[i]) < 1e-4F);
    }
  }
}

TEST_CASE("the length of resampled sound is rounded up, also of very short sound") {
  CHECK(energon::resampled_frames(44100, 44100, 16000) == 16000);
  CHECK(energon::resampled_frames(44101, 44100, 16000) == 16001);
  CHECK(energon::resampled_frames(std::int64_t{1} << 40, 1, 256) == std::int64_t{1} << 48);
  for (const auto quality : {ResampleQuality::kQuick, ResampleQuality::kLow,
                             ResampleQuality::kMedium, ResampleQuality::kVeryHigh}) {
    CAPTURE(quality);
    for (const std::size_t frames : {0, 1, 2, 3, 10, 100}) {
      CAPTURE(frames);
      for (const std::int64_t rate : {100, 7999, 8000, 44100, 2048000}) {
        CAPTURE(rate);
        const std::vector<float> sound(frames, 0.25F);
        const auto room = static_cast<std::size_t>(
            energon::resampled_frames(static_cast<std::int64_t>(frames), 8000, rate));
        std::vector<float> result(room, NAN);
        energon::resample(sound, 1, 8000, rate, result, quality);
        for (const float sample : result) {
          CAPTURE(sample);
          REQUIRE(std::abs(sample) < 0.5F);
        }
      }
    }
  }
}

TEST_CASE("sound of the same rate is copied") {
  const std::vector<float> sound = tones(50, 3, 8000);
  std::vector<float> result(sound.size());
  energon::resample(sound, 3, 8000, 8000, result);
  CHECK(result == sound);
}

TEST_CASE("rates and rooms that cannot be are refused") {
  CHECK(refused_rates(1, 0, 8000) ==
        "1 frames from 0 to 8000 Hz: rates must be 1 to 16777216, frames 0 to 1099511627776");
  CHECK_THAT(refused_rates(1, 8000, 1LL << 40), Catch::Contains("rates must be"));
  CHECK_THAT(refused_rates(-1, 8000, 8000), Catch::StartsWith("-1 frames"));
  CHECK(refused_rates(1, 8000, 31, ErrorCode::kUnsupported) ==
        "from 8000 to 31 Hz: rates may differ by a factor of 256, resample in two steps");
  std::vector<float> sound(10);
  std::vector<float> room(5);
  const auto refusal = [&](int channels, std::span<float> to) {
    return energon::testing::error_of([&] { energon::resample(sound, channels, 2, 1, to); },
                                      ErrorCode::kInvalidArgument);
  };
  CHECK(refusal(3, room) == "10 samples of 3 channels: give whole frames of 1 to 1024 channels");
  CHECK_THAT(refusal(0, room), Catch::Contains("10 samples of 0 channels"));
  CHECK(refusal(1, std::span(room).first(4)) ==
        "10 samples of 1 channels become 5 samples, there is room for 4");
  CHECK(energon::testing::error_of([&] { energon::to_mono(sound, 3, room); },
                                   ErrorCode::kInvalidArgument) ==
        "10 samples of 3 channels are not 5 frames");
  CHECK(energon::testing::error_of(
            [&] { energon::to_float_samples(std::vector<std::int16_t>(3), room); },
            ErrorCode::kInvalidArgument) == "3 samples need room for as many, there is room for 5");
}
