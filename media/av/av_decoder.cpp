#include "media/av/av_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "media/av/audio_reader.h"
#include "media/av/video_reader.h"
#include "media/transform/sound_transform.h"

namespace energon {

// --- Ranges of clips ---

namespace {

// The frames or samples of a clip: [first, first + count).
struct ClipSpan {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// The largest integer up to which all integers are exact in a double.
constexpr double kMostNumber = 9007199254740992.0;

void check_clip_range(const ClipRange& range, bool in_numbers) {
  const bool is_range = std::isfinite(range.begin) && range.begin >= 0 && range.end >= range.begin;
  if (!is_range) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a clip from {} to {}: expected a range that begins at 0 or later and "
                            "does not end before it begins",
                            range.begin, range.end));
  }
  const auto is_whole = [](double number) { return std::floor(number) == number; };
  if (in_numbers && (!is_whole(range.begin) || !is_whole(range.end))) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a clip from {} to {}: frame and sample numbers must be integers",
                            range.begin, range.end));
  }
}

std::int64_t to_number(double value) {
  return static_cast<std::int64_t>(std::clamp(value, -kMostNumber, kMostNumber));
}

/// The frames shown at some time of a range of seconds, or the frames with these numbers; at least
/// one. A range before the first frame selects the first frame. nullopt if the range begins after
/// the end of the video. Throws Error (kInvalidArgument) if `begin` is negative or not finite,
/// `end` is less than `begin`, or a frame number is not an integer.
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

/// For seconds, the samples from the one nearest to `begin` up to, excluding, the one nearest to
/// `end`, so that a clip has (end - begin) * rate samples and adjacent clips share none; at least
/// one. For samples, the samples with these numbers, including the last. `start_seconds` is the
/// time of sample 0. May extend past the end of the sound; nullopt if the range ends before sample
/// 0. Throws as clip_frames().
std::optional<ClipSpan> clip_samples(const ClipRange& range, AudioUnit unit, int sample_rate,
                                     double start_seconds) {
  check_clip_range(range, unit == AudioUnit::kSamples);
  if (unit == AudioUnit::kSamples) {
    const std::int64_t first = to_number(range.begin);
    return ClipSpan{.first = first, .count = to_number(range.end) - first + 1};
  }
  const double rate = std::max(sample_rate, 1);  // 0 if the sound has no samples
  const auto nearest = [&](double second) {
    return to_number(std::round((second - start_seconds) * rate));
  };
  const std::int64_t begin = nearest(range.begin);
  const std::int64_t end = std::max(nearest(range.end), begin + 1);
  const std::int64_t first = std::max<std::int64_t>(begin, 0);
  return end <= first ? std::nullopt
                      : std::optional<ClipSpan>({.first = first, .count = end - first});
}

/// span.first, span.first + 1, …
std::vector<std::int64_t> frame_numbers(const ClipSpan& span) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(span.count));
  std::iota(numbers.begin(), numbers.end(), span.first);
  return numbers;
}

}  // namespace

// --- The open file ---

/// The open file of an AvDecoder: the input, its packets, and a reader for each stream. Not
/// thread-safe. Functions for a stream throw Error (kInvalidArgument) if the file does not have it;
/// and like AvDecoder.
class AvDecoder::File {
 public:
  File(ByteView file, const AvDecoderOptions& options);

  const AvInput& input() const { return input_; }
  const VideoOrder& order();
  AudioReader& audio();

  /// `size`, or the size of frame `number` if unset.
  FrameSize size_of_frame(std::int64_t number, std::optional<FrameSize> size);
  TensorSpec spec_of(std::span<const std::int64_t> numbers, std::optional<FrameSize> size);
  /// Writes frames (numbers.size(), 3, height, width).
  void write_frames(std::span<const std::int64_t> numbers, std::optional<FrameSize> size,
                    std::span<std::byte> to);
  /// The clip without its tensor.
  VideoClip times_of(std::span<const std::int64_t> numbers);
  VideoClip decode_frames(std::span<const std::int64_t> numbers, std::optional<FrameSize> size,
                          BufferAllocator& memory);
  /// nullopt if there is no sample from span.first on.
  std::optional<AudioClip> decode_samples(const ClipSpan& span, BufferAllocator& memory);

 private:
  AvPackets& packets();
  VideoReader& video();

  const AvDecoderOptions options_;
  AvInput input_;
  std::optional<AvPackets> packets_;
  std::optional<Error> packets_error_;  // the input cannot be read twice
  std::optional<VideoOrder> order_;
  std::optional<VideoReader> video_;
  std::optional<AudioReader> audio_;
  FramePlanes planes_;
};

AvDecoder::File::File(ByteView file, const AvDecoderOptions& options)
    : options_(options), input_(file, options.limits) {}

AvPackets& AvDecoder::File::packets() {
  if (packets_error_) {
    throw *packets_error_;
  }
  if (!packets_) {
    try {
      packets_ = read_av_packets(input_);
    } catch (const Error& error) {
      packets_error_ = error;
      throw;
    }
  }
  return *packets_;
}

const VideoOrder& AvDecoder::File::order() {
  if (input_.video() == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "the file has no video");
  }
  if (!order_) {
    order_ = video_order(input_, packets().video, options_.limits);
  }
  return *order_;
}

VideoReader& AvDecoder::File::video() {
  if (!video_) {
    const VideoOrder& order = this->order();
    video_.emplace(input_, packets_->video, order, options_.limits);
  }
  return *video_;
}

AudioReader& AvDecoder::File::audio() {
  if (input_.audio() == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "the file has no sound");
  }
  if (!audio_) {
    audio_.emplace(input_, packets().audio, options_.audio_access, options_.limits);
  }
  return *audio_;
}

FrameSize AvDecoder::File::size_of_frame(std::int64_t number, std::optional<FrameSize> size) {
  if (!size) {
    const AVFrame& frame = video().frame(number);
    size = FrameSize{.width = frame.width, .height = frame.height};
  }
  if (size->width <= 0 || size->height <= 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("frames cannot have {} x {} pixels", size->width, size->height));
  }
  check_pixels("a frame of the clip", static_cast<std::uint64_t>(size->width),
               static_cast<std::uint64_t>(size->height), options_.limits);
  return *size;
}

TensorSpec AvDecoder::File::spec_of(std::span<const std::int64_t> numbers,
                                    std::optional<FrameSize> size) {
  if (numbers.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "a clip must have at least one frame");
  }
  const FrameSize frame = size_of_frame(numbers.front(), size);
  const auto count = static_cast<std::int64_t>(numbers.size());
  TensorSpec spec = {DType::kUInt8, {count, 3, frame.height, frame.width}};
  check_decoded_bytes("the clip", tensor_bytes(spec.dtype, spec.shape), options_.limits);
  return spec;
}

void AvDecoder::File::write_frames(std::span<const std::int64_t> numbers,
                                   std::optional<FrameSize> size, std::span<std::byte> to) {
  const FrameSize clip_size = size_of_frame(numbers.front(), size);
  const std::size_t frame_bytes = to.size() / numbers.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const AVFrame& frame = video().frame(numbers[i]);
    if (!size && FrameSize{frame.width, frame.height} != clip_size) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("frame {} has {} x {} pixels, frame {} of the same clip has {} x {}: "
                              "pass a size",
                              numbers[i], frame.width, frame.height, numbers.front(),
                              clip_size.width, clip_size.height));
    }
    planes_.write(frame, clip_size, options_.limits, to.subspan(i * frame_bytes, frame_bytes));
  }
}

VideoClip AvDecoder::File::times_of(std::span<const std::int64_t> numbers) {
  const VideoOrder& order = this->order();
  VideoClip clip;
  clip.times_seconds.reserve(numbers.size());
  for (const std::int64_t number : numbers) {
    clip.times_seconds.push_back(order.times_seconds[static_cast<std::size_t>(number)]);
  }
  clip.begin_seconds = clip.times_seconds.front();
  clip.end_seconds = order.end_of_frame(numbers.back());
  return clip;
}

VideoClip AvDecoder::File::decode_frames(std::span<const std::int64_t> numbers,
                                         std::optional<FrameSize> size, BufferAllocator& memory) {
  TensorSpec spec = spec_of(numbers, size);
  NewTensor result = new_tensor(spec.dtype, std::move(spec.shape), memory);
  write_frames(numbers, size, result.bytes);
  VideoClip clip = times_of(numbers);
  clip.frames = std::move(result.tensor);
  return clip;
}

std::optional<AudioClip> AvDecoder::File::decode_samples(const ClipSpan& span,
                                                         BufferAllocator& memory) {
  AudioReader& reader = audio();
  const double start = reader.start_seconds();
  const AudioSamples samples = reader.read(span.first, span.first + span.count);
  if (samples.size() == 0) {
    return std::nullopt;
  }
  AudioClip clip;
  clip.sample_rate = samples.sample_rate;
  const double rate = std::max(samples.sample_rate, 1);
  clip.begin_seconds = start + static_cast<double>(span.first) / rate;
  clip.end_seconds = start + static_cast<double>(span.first + samples.size()) / rate;
  if (options_.audio_sample_rate) {
    clip.sample_rate = *options_.audio_sample_rate;
    clip.samples = resampled(samples.tensor(heap_memory()), samples.sample_rate, clip.sample_rate,
                             options_.limits, memory);
  } else {
    clip.samples = samples.tensor(memory);
  }
  return clip;
}

// --- AvDecoder ---

namespace {

constexpr ClipRange kWhole = {0, std::numeric_limits<double>::infinity()};

// Indices of `ranges` sorted by their begin, the order in which decoding only moves forward.
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
                fmt::format("the clip begins at {}, after the end of the video of {} frames and "
                            "{} seconds",
                            range.begin, video_frame_count(), video_duration_seconds()));
  }
  const std::vector<std::int64_t> numbers = frame_numbers(*span);
  const TensorSpec spec = file().spec_of(numbers, size);
  const std::size_t bytes = tensor_bytes(spec.dtype, spec.shape);
  if (to.size() != bytes) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the clip needs {} bytes, but the memory for it has {}", bytes, to.size()));
  }
  file().write_frames(numbers, size, to);
  return file().times_of(numbers);
}

// --- Metadata ---

namespace {

// A number from a header, in which 0 means unknown.
template <class Number>
std::optional<Number> if_told(Number number) {
  return number > 0 ? std::optional<Number>(number) : std::nullopt;
}

// The duration of the stream, else that of the container.
std::optional<double> declared_duration(const AvInput& input, const AVStream& stream) {
  if (stream.duration != AV_NOPTS_VALUE && stream.duration > 0) {
    return av_seconds(stream.duration, stream.time_base);
  }
  const std::int64_t duration = input.format().duration;
  return duration == AV_NOPTS_VALUE ? std::nullopt
                                    : if_told(static_cast<double>(duration) / AV_TIME_BASE);
}

}  // namespace

// The FLV header contains little, and that is often wrong.
void AvDecoder::add_decoded(File& file, AvMetadata& metadata) {
  if (file.input().video() != nullptr) {
    const FrameSize size = file.size_of_frame(0, std::nullopt);
    metadata.width = size.width;
    metadata.height = size.height;
  }
  if (file.input().audio() != nullptr) {
    const AudioSamples sample = file.audio().read(0, 1);
    metadata.audio_channels = if_told(static_cast<int>(sample.channels.size()));
    metadata.audio_sample_rate = if_told(sample.sample_rate);
  }
}

AvMetadata AvDecoder::metadata() {
  const AvInput& input = file().input();
  AvMetadata metadata;
  if (input.video() != nullptr) {
    metadata.video_duration_seconds = declared_duration(input, *input.video());
    metadata.video_fps = if_told(av_frame_rate(*input.video()));
    metadata.width = if_told(input.video()->codecpar->width);
    metadata.height = if_told(input.video()->codecpar->height);
  }
  if (input.audio() != nullptr) {
    metadata.audio_duration_seconds = declared_duration(input, *input.audio());
    metadata.audio_channels = if_told(input.audio()->codecpar->ch_layout.nb_channels);
    metadata.audio_sample_rate = if_told(input.audio()->codecpar->sample_rate);
  }
  if (input.container() == AvContainer::kFlv) {
    add_decoded(file(), metadata);
  }
  return metadata;
}

AvMetadata read_av_metadata(ByteView file, const AvMetadataOptions& options,
                            const DecodeLimits& limits) {
  AvDecoder decoder({.view = file, .owner = nullptr}, {.limits = limits});
  AvMetadata metadata = decoder.metadata();
  if (options.count_frames && decoder.has_video()) {
    metadata.video_frames = decoder.video_frame_count();
    metadata.video_duration_seconds = decoder.video_duration_seconds();
  }
  if (options.count_samples && decoder.has_audio()) {
    metadata.audio_samples = decoder.audio_sample_count();
    metadata.audio_duration_seconds = decoder.audio_duration_seconds();
  }
  return metadata;
}

}  // namespace energon
