#include <catch2/catch.hpp>

#include "io/error.h"
#include "media/av/av_decoder.h"
#include "tests/media/av/av_files.h"

using energon::AvDecoder;
using energon::testing::av_bytes;
using energon::testing::av_file;
using energon::testing::frame_hashes;

namespace {

AvDecoder uniform_decoder() { return AvDecoder(av_bytes(av_file("h264_aac.mp4"))); }  // 0.8 s

}  // namespace

TEST_CASE("clips begin evenly from the start to the end", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder decoder = uniform_decoder();
  const energon::UniformClips clips = clips_uniform(decoder, 0.2, 3, {.with_audio = true}, memory);
  REQUIRE(clips.video.size() == 3);
  CHECK(clips.video[0].begin_seconds == 0);
  CHECK(clips.video[1].begin_seconds == Approx(0.28));  // the frame shown at 0.3
  CHECK(clips.video[2].end_seconds == Approx(0.8));
  REQUIRE(clips.audio.size() == 3);
  CHECK(clips.audio[1]->begin_seconds == Approx(0.3));
  CHECK(clips.audio[1]->samples.shape.at(1) == 8820);
  CHECK_FALSE(clips.audio[2].has_value());  // the sound ends at 0.51
  CHECK(clips_uniform(decoder, 5, 2, {}, memory).video.at(1).times_seconds.size() == 20);
  CHECK(clips_uniform(decoder, 0.2, 1, {}, memory).video.at(0).begin_seconds == 0);
}

TEST_CASE("single frames are half a frame away from the ends", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder decoder = uniform_decoder();
  const energon::VideoClip frames = frames_uniform(decoder, 4, std::nullopt, memory);
  CHECK(frames.frames.shape.at(0) == 4);
  // 0.02, 0.2733, 0.5267, 0.78
  CHECK(frames.times_seconds == std::vector<double>{0, 0.24, 0.52, 0.76});
  const auto clips = clips_uniform(decoder, 0, 4, {}, memory).video;
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(frame_hashes(clips.at(i)) == std::vector<std::uint64_t>{frame_hashes(frames)[i]});
  }
  CHECK(frames_uniform(decoder, 100, energon::FrameSize{8, 6}, memory).frames.shape ==
        std::vector<std::int64_t>{100, 3, 6, 8});
  CHECK(frames_uniform(decoder, 1, std::nullopt, memory).times_seconds == std::vector<double>{0});
}

TEST_CASE("no clips and clips of negative length are refused", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder decoder = uniform_decoder();
  CHECK_THROWS_WITH(clips_uniform(decoder, 1, 0, {}, memory), Catch::Contains("0 clips"));
  CHECK_THROWS_WITH(clips_uniform(decoder, -1, 2, {}, memory), Catch::Contains("-1 seconds"));
  CHECK_THROWS_WITH(frames_uniform(decoder, -3, std::nullopt, memory), Catch::Contains("-3 clips"));
}

TEST_CASE("a clip that would begin at the end of the video has the last frame", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder decoder = uniform_decoder();
  const auto clips = clips_uniform(decoder, 1e-300, 2, {}, memory).video;
  REQUIRE(clips.size() == 2);
  CHECK(clips[0].times_seconds == std::vector<double>{0});
  CHECK(clips[1].times_seconds == std::vector<double>{0.76});
}
