#include "media/transform/sound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"

// Set to 1 or 0 by the build.
#ifndef ENERGON_HAS_SOXR
#error "ENERGON_HAS_SOXR must be 1 or 0"
#endif
#if ENERGON_HAS_SOXR
#include <soxr.h>
#endif

namespace energon {

// --- To float32 and to one channel ---

namespace {

constexpr float kBelowOne = 0x1.fffffep-1F;

void check_same_size(std::size_t from, std::size_t to) {
  if (from != to) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} samples need room for as many, there is room for {}", from, to));
  }
}

}  // namespace

void to_float_samples(std::span<const std::int16_t> from, std::span<float> to) {
  check_same_size(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = static_cast<float>(from[i]) * 0x1p-15F;
  }
}

void to_float_samples(std::span<const std::int32_t> from, std::span<float> to) {
  check_same_size(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = std::min(static_cast<float>(from[i]) * 0x1p-31F, kBelowOne);
  }
}

void to_float_samples(std::span<const std::uint8_t> from, std::span<float> to) {
  check_same_size(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = static_cast<float>(from[i] - 128) * 0x1p-7F;
  }
}

void to_mono(std::span<const float> from, int channels, std::span<float> to) {
  if (channels < 1 || from.size() % static_cast<std::size_t>(channels) != 0 ||
      from.size() / static_cast<std::size_t>(channels) != to.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} samples of {} channels are not {} frames", from.size(), channels,
                            to.size()));
  }
  const auto count = static_cast<std::size_t>(channels);
  for (std::size_t frame = 0; frame < to.size(); ++frame) {
    double sum = 0;
    for (std::size_t channel = 0; channel < count; ++channel) {
      sum += static_cast<double>(from[frame * count + channel]);
    }
    to[frame] = static_cast<float>(sum / channels);
  }
}

// --- libsoxr ---

namespace {

#if ENERGON_HAS_SOXR

constexpr std::size_t kSilentFrames = 1024;

struct SoxrDeleter {
  void operator()(soxr_t resampler) const { soxr_delete(resampler); }
};
using UniqueSoxr = std::unique_ptr<soxr, SoxrDeleter>;

unsigned long recipe_of(ResampleQuality quality) {
  switch (quality) {
    case ResampleQuality::kQuick:
      return SOXR_QQ;
    case ResampleQuality::kLow:
      return SOXR_LQ;
    case ResampleQuality::kMedium:
      return SOXR_MQ;
    case ResampleQuality::kHigh:
      return SOXR_HQ;
    case ResampleQuality::kVeryHigh:
      break;
  }
  return SOXR_VHQ;
}

[[noreturn]] void soxr_failed(const char* cause) {
  throw Error(ErrorCode::kInternal, fmt::format("libsoxr cannot resample: {}", cause));
}

UniqueSoxr open_soxr(int channels, std::int64_t from_rate, std::int64_t to_rate,
                     ResampleQuality quality) {
  const std::int64_t divisor = std::gcd(from_rate, to_rate);
  const soxr_io_spec_t samples = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t recipe = soxr_quality_spec(recipe_of(quality), 0);
  const soxr_runtime_spec_t one_thread = soxr_runtime_spec(1);
  soxr_error_t error = nullptr;
  const std::int64_t from = from_rate / divisor;
  const std::int64_t to = to_rate / divisor;
  UniqueSoxr resampler(soxr_create(static_cast<double>(from), static_cast<double>(to),
                                   static_cast<unsigned>(channels), &error, &samples, &recipe,
                                   &one_thread));
  if (error != nullptr || resampler == nullptr) {
    soxr_failed(error != nullptr ? error : "no memory");
  }
  return resampler;
}

// Gives frames to the resampler until all are taken or `to` is full; returns the frames written.
std::size_t feed(soxr_t resampler, std::span<const float> from, int channels, std::span<float> to) {
  const auto count = static_cast<std::size_t>(channels);
  std::size_t written = 0;
  while (!from.empty() && written * count < to.size()) {
    std::size_t taken = 0;
    std::size_t made = 0;
    const soxr_error_t error =
        soxr_process(resampler, from.data(), from.size() / count, &taken,
                     to.data() + written * count, to.size() / count - written, &made);
    if (error != nullptr) {
      soxr_failed(error);
    }
    if (taken == 0 && made == 0) {
      soxr_failed("it takes no samples and makes none");
    }
    from = from.subspan(taken * count);
    written += made;
  }
  return written;
}

/// Fills `to` as resample() does. Requires: resample() has checked the arguments, the rates differ
/// and `to` is not empty. Throws Error: kInternal with the message of libsoxr; kUnsupported in a
/// build without it.
void resample_frames(std::span<const float> from, int channels, std::int64_t from_rate,
                     std::int64_t to_rate, std::span<float> to, ResampleQuality quality) {
  const UniqueSoxr resampler = open_soxr(channels, from_rate, to_rate, quality);
  const auto count = static_cast<std::size_t>(channels);
  std::size_t written = feed(resampler.get(), from, channels, to);
  const std::vector<float> silence(kSilentFrames * count);
  while (written * count < to.size()) {  // the filter holds back the end until it has more
    written += feed(resampler.get(), silence, channels, to.subspan(written * count));
  }
}

#else

void resample_frames(std::span<const float>, int, std::int64_t, std::int64_t, std::span<float>,
                     ResampleQuality) {
  throw Error(ErrorCode::kUnsupported, "this build cannot change sample rates (libsoxr-dev)");
}

#endif

}  // namespace

// --- To another rate ---

namespace {

constexpr std::int64_t kHighestRate = std::int64_t{1} << 24;
constexpr std::int64_t kMostFrames = std::int64_t{1} << 40;
constexpr std::int64_t kLargestFactor = 256;
constexpr int kMostChannels = 1024;

void check_sound(std::span<const float> from, int channels, std::int64_t frames,
                 std::span<float> to) {
  const auto room = static_cast<std::size_t>(frames) * static_cast<std::size_t>(channels);
  if (to.size() != room) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} samples of {} channels become {} samples, there is room for {}",
                            from.size(), channels, room, to.size()));
  }
}

}  // namespace

std::int64_t resampled_frames(std::int64_t frames, std::int64_t from_rate, std::int64_t to_rate) {
  if (from_rate < 1 || to_rate < 1 || from_rate > kHighestRate || to_rate > kHighestRate ||
      frames < 0 || frames > kMostFrames) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} frames from {} to {} Hz: rates must be 1 to {}, frames 0 to {}",
                            frames, from_rate, to_rate, kHighestRate, kMostFrames));
  }
  if (from_rate > kLargestFactor * to_rate || to_rate > kLargestFactor * from_rate) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("from {} to {} Hz: rates may differ by a factor of {}, resample in two "
                            "steps",
                            from_rate, to_rate, kLargestFactor));
  }
  const std::int64_t divisor = std::gcd(from_rate, to_rate);
  const std::int64_t up = to_rate / divisor;
  const std::int64_t down = from_rate / divisor;
  return frames / down * up + (frames % down * up + down - 1) / down;
}

void resample(std::span<const float> from, int channels, std::int64_t from_rate,
              std::int64_t to_rate, std::span<float> to, ResampleQuality quality) {
  if (channels < 1 || channels > kMostChannels ||
      from.size() % static_cast<std::size_t>(channels) != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} samples of {} channels: give whole frames of 1 to {} channels",
                            from.size(), channels, kMostChannels));
  }
  const auto frames = static_cast<std::int64_t>(from.size() / static_cast<std::size_t>(channels));
  check_sound(from, channels, resampled_frames(frames, from_rate, to_rate), to);
  if (from_rate == to_rate) {
    std::copy(from.begin(), from.end(), to.begin());
    return;
  }
  if (to.empty()) {
    return;
  }
  resample_frames(from, channels, from_rate, to_rate, to, quality);
}

}  // namespace energon
