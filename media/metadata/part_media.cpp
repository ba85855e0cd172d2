#include "media/metadata/part_media.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/part_place.h"
#include "media/av/av_decoder.h"
#include "media/metadata/image_metadata.h"

namespace energon {

// --- Sound and video ---

namespace {

// Removes the rounding noise of a difference of times. Most durations are a whole number of frames.
double tidy_seconds(double seconds, double fps) {
  constexpr double kLeastTick = 1e-6;
  const double by_rate = fps > 0 ? std::round(seconds * fps) / fps : 0;
  if (std::abs(seconds - by_rate) < kLeastTick) {
    return by_rate;
  }
  const std::string text = fmt::format("{:.15g}", seconds);
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return seconds;
}

void add_video(AvDecoder& decoder, MediaMetadata& metadata) {
  const std::array<ClipRange, 1> first = {ClipRange{.begin = 0, .end = 0}};
  const std::vector<std::optional<VideoClip>> clips =
      decoder.video_clips(first, VideoUnit::kFrames, std::nullopt, heap_memory());
  const std::optional<VideoClip>& clip = clips.at(0);
  const double begin = clip ? clip->begin_seconds : 0;
  metadata.video_frames = decoder.video_frame_count();
  metadata.video_fps = decoder.video_fps();
  metadata.video_duration =
      tidy_seconds(decoder.video_duration_seconds() - begin, *metadata.video_fps);
  if (clip) {
    metadata.height = clip->frames.shape.at(2);
    metadata.width = clip->frames.shape.at(3);
  }
}

void add_audio(AvDecoder& decoder, MediaMetadata& metadata) {
  metadata.audio_samples = decoder.audio_sample_count();
  metadata.audio_channels = decoder.metadata().audio_channels;
  if (const int rate = decoder.audio_sample_rate(); rate > 0) {
    metadata.audio_sample_rate = rate;
    metadata.audio_duration = static_cast<double>(*metadata.audio_samples) / rate;
  }
}

/// Determines durations, rates and sizes exactly, even where the container only estimates them:
/// reads all packets, decodes the first frame of the video, which defines the size, and all of the
/// sound. The duration of a stream is from its first frame to the end of its last; for sound, it is
/// the number of samples divided by the rate. Pictures attached to sound do not count as video.
/// Throws Error as AvDecoder (media/av/av_decoder.h). Thread-safe.
MediaMetadata read_av_file_metadata(ByteView file, const DecodeLimits& limits) {
  AvDecoder decoder({.view = file, .owner = nullptr}, {.limits = limits});
  MediaMetadata metadata{.kind = MediaKind::kAv};
  if (decoder.has_video()) {
    add_video(decoder, metadata);
  }
  if (decoder.has_audio()) {
    add_audio(decoder, metadata);
  }
  return metadata;
}

}  // namespace

// --- Parts and files ---

namespace {

// The headers of most images end before this byte.
constexpr std::uint64_t kBeginningBytes = std::uint64_t{1} << 15;

// Whether an error is caused by the medium, not by the system or this library.
bool is_of_medium(ErrorCode code) {
  return code == ErrorCode::kCorruptData || code == ErrorCode::kUnsupported ||
         code == ErrorCode::kResourceExhausted;
}

}  // namespace

MediaMetadata read_media_metadata(MediaKind kind, ByteView file, const DecodeLimits& limits) {
  return kind == MediaKind::kImage ? read_image_metadata(file, limits)
                                   : read_av_file_metadata(file, limits);
}

SharedBytes MediaReader::read_range(const FileSource& file, const ByteRange& range) {
  bytes_read_ += range.size;
  return read_bytes(file, range);
}

// Reads all of the content if the beginning is not enough. Errors of reading are not caused by the
// medium, so they propagate.
MediaMetadata MediaReader::decode(MediaKind kind, const FileSource& file, const ByteRange& content,
                                  ByteView beginning) {
  const bool is_whole = beginning.size() == content.size;
  if (is_whole) {
    return read_media_metadata(kind, beginning, options_.limits);
  }
  if (kind == MediaKind::kImage) {
    try {
      return read_image_metadata(beginning, options_.limits);
    } catch (const Error& error) {
      if (!is_of_medium(error.code())) {
        throw;
      }
    }
  }
  if (content.size > options_.max_part_bytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("it has {} bytes, the limit is {} (max_part_bytes)", content.size,
                            options_.max_part_bytes));
  }
  const SharedBytes whole = read_range(file, content);
  return read_media_metadata(kind, whole.view, options_.limits);
}

PartMedia MediaReader::tell(std::string_view name, const FileSource& file, const ByteRange& content,
                            ByteView beginning) {
  const std::optional<MediaKind> kind = media_kind_of(filter_, name, beginning);
  if (!kind) {
    return std::monostate();
  }
  try {
    return decode(*kind, file, content, beginning);
  } catch (const Error& error) {
    const bool is_of_file = error.context().path.has_value();
    if (is_of_file || !is_of_medium(error.code())) {
      throw;
    }
    return error.what();
  }
}

PartMedia MediaReader::read_part(std::string_view name, const PartLocation& part,
                                 const FileSource& tar, const SampleIndex& index) {
  if (!may_be_media(filter_, name)) {
    return std::monostate();
  }
  check_part_range(part, tar);
  const std::uint64_t size = std::min(part.content.size, kBeginningBytes);
  const SharedBytes bytes = read_range(
      tar, {.offset = part.content.offset - kTarBlockBytes, .size = size + kTarBlockBytes});
  check_part_place(TarBlock(bytes.view.first(kTarBlockBytes)), name, part, tar, index);
  return tell(name, tar, part.content, bytes.view.subspan(kTarBlockBytes));
}

PartMedia MediaReader::read_file(std::string_view name, const std::string& path) {
  if (!may_be_media(filter_, name)) {
    return std::monostate();
  }
  try {
    const FileSource file(path);
    const ByteRange content{.offset = 0, .size = file.size()};
    const SharedBytes beginning =
        read_range(file, {.offset = 0, .size = std::min(content.size, kBeginningBytes)});
    return tell(name, file, content, beginning.view);
  } catch (const Error& error) {
    // The file may be a dangling link, or may have been removed or truncated meanwhile.
    if (error.code() != ErrorCode::kNotFound && error.code() != ErrorCode::kCorruptData) {
      throw;
    }
    return error.message();
  }
}

}  // namespace energon
