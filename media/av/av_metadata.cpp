#include "media/av/av_metadata.h"

#include "media/av/av_decoder.h"
#include "media/av/av_file.h"

namespace energon {
namespace {

// A number of a header, where 0 means that it does not tell.
template <class Number>
std::optional<Number> if_told(Number number) {
  return number > 0 ? std::optional<Number>(number) : std::nullopt;
}

// As the stream says, else the container.
std::optional<double> told_duration(const AvInput& input, const AVStream& stream) {
  if (stream.duration != AV_NOPTS_VALUE && stream.duration > 0) {
    return av_seconds(stream.duration, stream.time_base);
  }
  const std::int64_t duration = input.format().duration;
  return duration == AV_NOPTS_VALUE ? std::nullopt
                                    : if_told(static_cast<double>(duration) / AV_TIME_BASE);
}

}  // namespace

// The header of FLV tells little, and that is often wrong.
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
    metadata.video_duration_seconds = told_duration(input, *input.video());
    metadata.video_fps = if_told(av_frame_rate(*input.video()));
    metadata.width = if_told(input.video()->codecpar->width);
    metadata.height = if_told(input.video()->codecpar->height);
  }
  if (input.audio() != nullptr) {
    metadata.audio_duration_seconds = told_duration(input, *input.audio());
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
