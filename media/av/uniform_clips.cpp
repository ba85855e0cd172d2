#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/av/av_decoder.h"

namespace energon {
namespace {

// Evenly spaced numbers from `first` to `last`, both included; only `first` if count is 1.
std::vector<double> evenly(double first, double last, std::int64_t count) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = count == 1 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1);
    numbers.push_back(first + (last - first) * share);
  }
  return numbers;
}

// Where the clips begin.
std::vector<double> uniform_begins(AvDecoder& decoder, double clip_seconds, std::int64_t count) {
  if (count < 1 || !std::isfinite(clip_seconds) || clip_seconds < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} clips of {} seconds: expected one or more clips of 0 seconds or "
                            "more",
                            count, clip_seconds));
  }
  const double duration = std::max(decoder.video_duration_seconds(), 0.0);
  if (clip_seconds > 0) {
    return evenly(0, std::max(duration - clip_seconds, 0.0), count);
  }
  const double rate = decoder.video_fps();
  const double half_frame = rate > 0 ? std::min(0.5 / rate, duration / 2) : duration / 2;
  return evenly(half_frame, duration - half_frame, count);
}

}  // namespace

UniformClips clips_uniform(AvDecoder& decoder, double clip_seconds, std::int64_t num_clips,
                           const UniformClipsOptions& options, BufferAllocator& memory) {
  std::vector<ClipRange> ranges;
  for (const double begin : uniform_begins(decoder, clip_seconds, num_clips)) {
    ranges.push_back({begin, begin + clip_seconds});
  }
  UniformClips result;
  std::vector<std::optional<VideoClip>> clips =
      decoder.video_clips(ranges, VideoUnit::kSeconds, options.size, memory);
  for (std::size_t i = 0; i < clips.size(); ++i) {
    // nullopt if the video has no duration, or the clip is shorter than the precision of a double.
    const std::span<const double> begin(&ranges[i].begin, 1);
    result.video.push_back(clips[i] ? *std::move(clips[i])
                                    : decoder.video_frames_at(begin, options.size, memory));
  }
  if (options.with_audio && decoder.has_audio()) {
    result.audio = decoder.audio_clips(ranges, AudioUnit::kSeconds, memory);
  }
  return result;
}

VideoClip frames_uniform(AvDecoder& decoder, std::int64_t num_frames, std::optional<FrameSize> size,
                         BufferAllocator& memory) {
  return decoder.video_frames_at(uniform_begins(decoder, 0, num_frames), size, memory);
}

}  // namespace energon
