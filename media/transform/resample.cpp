#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/resample_frames.h"
#include "media/transform/sound.h"

namespace energon {
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
