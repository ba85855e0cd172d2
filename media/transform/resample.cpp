#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <soxr.h>

#include "io/error.h"
#include "media/transform/sound.h"

namespace energon {
namespace {

constexpr std::int64_t kHighestRate = std::int64_t{1} << 24;
constexpr std::int64_t kMostFrames = std::int64_t{1} << 40;
constexpr std::int64_t kLargestFactor = 256;
constexpr int kMostChannels = 1024;
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
  UniqueSoxr resampler(
      soxr_create(static_cast<double>(from_rate / divisor), static_cast<double>(to_rate / divisor),
                  static_cast<unsigned>(channels), &error, &samples, &recipe, &one_thread));
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
  const UniqueSoxr resampler = open_soxr(channels, from_rate, to_rate, quality);
  const auto count = static_cast<std::size_t>(channels);
  std::size_t written = feed(resampler.get(), from, channels, to);
  const std::vector<float> silence(kSilentFrames * count);
  while (written * count < to.size()) {  // the filter holds back the end until it has more
    written += feed(resampler.get(), silence, channels, to.subspan(written * count));
  }
}

}  // namespace energon
