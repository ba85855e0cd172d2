#include "media/av/clip_span.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

// Whole numbers are exact in a double up to here.
constexpr double kMostNumber = 9007199254740992.0;

void check_clip_range(const ClipRange& range, bool in_numbers) {
  const bool is_range = std::isfinite(range.begin) && range.begin >= 0 && range.end >= range.begin;
  if (!is_range) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a clip from {} to {} is no range: it must begin at 0 or later and not "
                            "end before it begins",
                            range.begin, range.end));
  }
  const auto is_whole = [](double number) { return std::floor(number) == number; };
  if (in_numbers && (!is_whole(range.begin) || !is_whole(range.end))) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a clip from {} to {}: numbers of frames and samples must be whole",
                            range.begin, range.end));
  }
}

std::int64_t to_number(double value) {
  return static_cast<std::int64_t>(std::clamp(value, -kMostNumber, kMostNumber));
}

}  // namespace

std::optional<ClipSpan> clip_frames(const ClipRange& range, VideoUnit unit,
                                    const VideoOrder& order) {
  check_clip_range(range, unit == VideoUnit::kFrames);
  const std::int64_t frames = order.frames();
  if (unit == VideoUnit::kFrames) {
    const std::int64_t first = to_number(range.begin);
    const std::int64_t last = std::min(to_number(range.end), frames - 1);
    return first >= frames ? std::nullopt
                           : std::optional<ClipSpan>({.first = first, .count = last - first + 1});
  }
  if (range.begin >= order.end_seconds) {
    return std::nullopt;
  }
  const auto& times = order.times_seconds;
  const auto shown_at = [&](double second) {
    return std::max<std::int64_t>(std::ranges::upper_bound(times, second) - times.begin() - 1, 0);
  };
  const std::int64_t first = shown_at(range.begin);
  return ClipSpan{.first = first, .count = shown_at(range.end) - first + 1};
}

std::optional<ClipSpan> clip_samples(const ClipRange& range, AudioUnit unit, int sample_rate,
                                     double start_seconds) {
  check_clip_range(range, unit == AudioUnit::kSamples);
  if (unit == AudioUnit::kSamples) {
    const std::int64_t first = to_number(range.begin);
    return ClipSpan{.first = first, .count = to_number(range.end) - first + 1};
  }
  const double rate = std::max(sample_rate, 1);  // 0: the sound has no samples
  const auto nearest = [&](double second) {
    return to_number(std::round((second - start_seconds) * rate));
  };
  const std::int64_t begin = nearest(range.begin);
  const std::int64_t end = std::max(nearest(range.end), begin + 1);
  const std::int64_t first = std::max<std::int64_t>(begin, 0);
  return end <= first ? std::nullopt
                      : std::optional<ClipSpan>({.first = first, .count = end - first});
}

}  // namespace energon
