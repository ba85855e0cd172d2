#include "media/metadata/av_file_metadata.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "media/av/av_decoder.h"

namespace energon {
namespace {

// `seconds` without the noise that a difference of times has in its last digits: most are a whole
// number of frames.
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

}  // namespace

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

}  // namespace energon
