#include "media/av/av_decoder.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/av/av_file.h"

namespace energon {
namespace {

constexpr ClipRange kWhole = {0, std::numeric_limits<double>::infinity()};

// Positions of `ranges` by their begin: in this order decoding goes forward.
std::vector<std::size_t> ascending(std::span<const ClipRange> ranges) {
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return ranges[a].begin < ranges[b].begin; });
  return order;
}

}  // namespace

AvDecoder::AvDecoder(SharedBytes file, AvDecoderOptions options)
    : bytes_(std::move(file)), options_(options) {}

AvDecoder::AvDecoder(AvDecoder&&) noexcept = default;
AvDecoder& AvDecoder::operator=(AvDecoder&& other) noexcept {
  if (this != &other) {
    file_ = std::move(other.file_);  // before the bytes that the old file views
    bytes_ = std::move(other.bytes_);
    options_ = other.options_;
  }
  return *this;
}
AvDecoder::~AvDecoder() = default;

AvDecoder::File& AvDecoder::file() {
  if (!file_) {
    file_ = std::make_unique<File>(bytes_.view, options_);
  }
  return *file_;
}

bool AvDecoder::has_video() { return file().input().video() != nullptr; }

bool AvDecoder::has_audio() { return file().input().audio() != nullptr; }

std::int64_t AvDecoder::video_frame_count() { return file().order().frames(); }

double AvDecoder::video_fps() {
  const VideoOrder& order = file().order();
  const double rate = av_frame_rate(*file().input().video());
  const double seconds = order.end_seconds - order.times_seconds.front();
  return rate > 0 || seconds <= 0 ? rate : static_cast<double>(order.frames()) / seconds;
}

double AvDecoder::video_duration_seconds() { return file().order().end_seconds; }

std::int64_t AvDecoder::audio_sample_count() { return file().audio().total_samples(); }

int AvDecoder::audio_sample_rate() { return file().audio().sample_rate(); }

double AvDecoder::audio_duration_seconds() {
  AudioReader& audio = file().audio();
  return audio.start_seconds() +
         static_cast<double>(audio.total_samples()) / std::max(audio.sample_rate(), 1);
}

std::vector<std::optional<VideoClip>> AvDecoder::video_clips(std::span<const ClipRange> ranges,
                                                             VideoUnit unit,
                                                             std::optional<FrameSize> size,
                                                             BufferAllocator& memory) {
  std::vector<std::optional<ClipSpan>> spans;
  for (const ClipRange& range : ranges) {
    spans.push_back(clip_frames(range, unit, file().order()));
  }
  std::vector<std::optional<VideoClip>> clips(ranges.size());
  for (const std::size_t i : ascending(ranges)) {
    if (spans[i]) {
      clips[i] = file().decode_frames(frame_numbers(*spans[i]), size, memory);
    }
  }
  return clips;
}

std::vector<std::optional<AudioClip>> AvDecoder::audio_clips(std::span<const ClipRange> ranges,
                                                             AudioUnit unit,
                                                             BufferAllocator& memory) {
  AudioReader& audio = file().audio();
  std::vector<std::optional<ClipSpan>> spans;
  for (const ClipRange& range : ranges) {
    const int rate = unit == AudioUnit::kSeconds ? audio.sample_rate() : 0;
    spans.push_back(clip_samples(range, unit, rate, audio.start_seconds()));
  }
  std::vector<std::optional<AudioClip>> clips(ranges.size());
  for (const std::size_t i : ascending(ranges)) {
    if (spans[i]) {
      clips[i] = file().decode_samples(*spans[i], memory);
    }
  }
  return clips;
}

VideoClip AvDecoder::video_frames_at(std::span<const double> seconds, std::optional<FrameSize> size,
                                     BufferAllocator& memory) {
  const VideoOrder& order = file().order();
  std::vector<std::int64_t> numbers;
  for (const double second : seconds) {
    const double begin = std::max(second, 0.0);
    const std::optional<ClipSpan> span = clip_frames({begin, begin}, VideoUnit::kSeconds, order);
    numbers.push_back(span ? span->first : order.frames() - 1);
  }
  return file().decode_frames(numbers, size, memory);
}

VideoClip AvDecoder::video(std::optional<FrameSize> size, BufferAllocator& memory) {
  const ClipSpan all = {.first = 0, .count = video_frame_count()};
  return file().decode_frames(frame_numbers(all), size, memory);
}

AudioClip AvDecoder::audio(BufferAllocator& memory) {
  const std::optional<ClipSpan> all = clip_samples(kWhole, AudioUnit::kSamples, 0, 0);
  std::optional<AudioClip> clip = file().decode_samples(*all, memory);
  if (!clip) {
    throw Error(ErrorCode::kCorruptData, "the sound has no samples");
  }
  return *std::move(clip);
}

VideoWithAudio AvDecoder::video_with_audio(std::optional<FrameSize> size, BufferAllocator& memory) {
  VideoWithAudio result;
  if (has_video()) {
    result.video = video(size, memory);
  }
  if (has_audio()) {
    result.audio = audio(memory);
  }
  return result;
}

std::optional<TensorSpec> AvDecoder::probe_clip(const ClipRange& range, VideoUnit unit,
                                                std::optional<FrameSize> size) {
  const std::optional<ClipSpan> span = clip_frames(range, unit, file().order());
  if (!span) {
    return std::nullopt;
  }
  return file().spec_of(frame_numbers(*span), size);
}

VideoClip AvDecoder::decode_clip_into(const ClipRange& range, VideoUnit unit,
                                      std::optional<FrameSize> size, std::span<std::byte> to) {
  const std::optional<ClipSpan> span = clip_frames(range, unit, file().order());
  if (!span) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the clip begins at {}, behind the end of the video of {} frames and "
                            "{} seconds",
                            range.begin, video_frame_count(), video_duration_seconds()));
  }
  const std::vector<std::int64_t> numbers = frame_numbers(*span);
  const TensorSpec spec = file().spec_of(numbers, size);
  const std::size_t bytes = tensor_bytes(spec.dtype, spec.shape);
  if (to.size() != bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the clip has {} bytes, the memory for it {}", bytes, to.size()));
  }
  file().write_frames(numbers, size, to);
  return file().times_of(numbers);
}

}  // namespace energon
