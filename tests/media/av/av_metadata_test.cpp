#include <catch2/catch.hpp>

#include "media/av/av_decoder.h"
#include "tests/media/av/av_files.h"

using energon::AvMetadata;
using energon::testing::av_file;

namespace {

AvMetadata metadata_of(const std::string& name, const energon::AvMetadataOptions& options = {}) {
  const std::string file = av_file(name);
  return energon::read_av_metadata(energon::as_bytes(file), options);
}

}  // namespace

TEST_CASE("metadata comes from the header", "[media][av]") {
  const AvMetadata video = metadata_of("h264_aac.mp4");
  CHECK(video.video_duration_seconds.value() == Approx(0.8));
  CHECK(video.video_fps.value() == Approx(25));
  CHECK(video.width == 32);
  CHECK(video.height == 24);
  CHECK(video.audio_duration_seconds.value() == Approx(0.5));
  CHECK(video.audio_channels == 2);
  CHECK(video.audio_sample_rate == 44100);
  CHECK_FALSE(video.video_frames.has_value());
  CHECK_FALSE(video.audio_samples.has_value());
  const AvMetadata sound = metadata_of("stereo24.flac");
  CHECK_FALSE(sound.width.has_value());
  CHECK_FALSE(sound.video_duration_seconds.has_value());
  CHECK(sound.audio_channels == 2);
  CHECK(sound.audio_sample_rate == 8000);
}

TEST_CASE("metadata is counted on request", "[media][av]") {
  for (const char* name : {"h264_aac.mp4", "h264_mp3.mkv", "mpeg4_b.avi", "vp9_opus.webm"}) {
    INFO(name);
    const AvMetadata counted = metadata_of(name, {.count_frames = true, .count_samples = true});
    CHECK(counted.video_frames == 20);
    CHECK(counted.video_duration_seconds.value() == Approx(0.8).margin(0.03));
  }
  const AvMetadata sound = metadata_of("mono.mp3", {.count_frames = true, .count_samples = true});
  CHECK(sound.audio_samples == 26460);
  CHECK(sound.audio_duration_seconds.value() == Approx(0.6));
  CHECK_FALSE(sound.video_frames.has_value());
}

TEST_CASE("the header of FLV is completed from the streams", "[media][av]") {
  const AvMetadata metadata = metadata_of("h264_aac.flv");
  CHECK(metadata.width == 32);
  CHECK(metadata.height == 24);
  CHECK(metadata.audio_channels == 1);
  CHECK(metadata.audio_sample_rate == 44100);
}
