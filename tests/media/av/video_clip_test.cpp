// Frames equal those that the program ffmpeg decodes (make_vectors.py).

#include <array>
#include <cmath>
#include <limits>
#include <thread>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/media/av/av_files.h"
#include "tests/media/av/expected.h"

using energon::AvDecoder;
using energon::ClipRange;
using energon::FrameSize;
using energon::VideoClip;
using energon::VideoUnit;
using energon::testing::av_bytes;
using energon::testing::av_file;
using energon::testing::ExpectedFile;
using energon::testing::frame_hashes;
using energon::testing::kResizedFrames;
using energon::testing::kTinyFiles;
using energon::testing::kTwoSizesFrames;
using energon::testing::scattered;
using energon::testing::video_clip;
using Shape = std::vector<std::int64_t>;

namespace {

AvDecoder decoder_of(const std::string& name) { return AvDecoder(av_bytes(av_file(name))); }

// The results of ffmpeg for frames [first, last] of `file`.
std::vector<std::uint64_t> expected_hashes(const ExpectedFile& file, std::size_t first,
                                           std::size_t last) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = first; i <= last; ++i) {
    hashes.push_back(file.frame_hashes.at(i).second);
  }
  return hashes;
}

const ExpectedFile& expected(const std::string& name) {
  for (const ExpectedFile& file : kTinyFiles) {
    if (file.name == name) {
      return file;
    }
  }
  FAIL("no file " << name);
  return kTinyFiles.front();
}

}  // namespace

TEST_CASE("all frames of a video equal those of ffmpeg", "[media][av]") {
  energon::HeapBufferPool memory;
  for (const ExpectedFile& file : kTinyFiles) {
    INFO(file.name);
    AvDecoder decoder = decoder_of(file.name);
    REQUIRE(decoder.has_video() == (file.frames > 0));
    if (file.frames == 0) {
      continue;
    }
    const VideoClip clip = decoder.video(std::nullopt, memory);
    CHECK(clip.frames.shape == Shape{file.frames, 3, 24, 32});
    CHECK(clip.frames.dtype == energon::DType::kUInt8);
    CHECK(frame_hashes(clip) == expected_hashes(file, 0, file.frame_hashes.size() - 1));
    CHECK(decoder.video_frame_count() == file.frames);
    CHECK(decoder.video_fps() == Approx(25));
    CHECK(clip.end_seconds == Approx(decoder.video_duration_seconds()));
    for (std::size_t i = 0; i < clip.times_seconds.size(); ++i) {
      CHECK(clip.times_seconds[i] - clip.begin_seconds == Approx(0.04 * static_cast<double>(i)));
    }
  }
}

TEST_CASE("frames are exact in every order of access", "[media][av]") {
  for (const ExpectedFile& file : kTinyFiles) {
    AvDecoder decoder = decoder_of(file.name);
    for (const std::size_t number : scattered(file.frame_hashes.size())) {
      INFO(file.name << " frame " << number);
      const auto at = static_cast<double>(number);
      const auto clip = video_clip(decoder, {at, at}, VideoUnit::kFrames);
      REQUIRE(clip.has_value());
      CHECK(frame_hashes(*clip) == expected_hashes(file, number, number));
    }
  }
}

TEST_CASE("clips may overlap, descend and repeat", "[media][av]") {
  energon::HeapBufferPool memory;
  const std::array<ClipRange, 5> ranges = {{{12, 17}, {3, 9}, {8, 13}, {3, 9}, {18, 400}}};
  for (const char* name : {"h264_aac.mp4", "h264_open_gop.mkv", "mpeg4_b.avi", "vp9_opus.webm"}) {
    INFO(name);
    AvDecoder decoder = decoder_of(name);
    const auto clips = decoder.video_clips(ranges, VideoUnit::kFrames, std::nullopt, memory);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      CHECK(frame_hashes(clips.at(i).value()) ==
            expected_hashes(expected(name), static_cast<std::size_t>(ranges[i].begin),
                            std::min<std::size_t>(19, static_cast<std::size_t>(ranges[i].end))));
    }
  }
}

TEST_CASE("a range of seconds has the frames shown in it, both ends included", "[media][av]") {
  AvDecoder decoder = decoder_of("h264_aac.mp4");
  const auto times = [&](double begin, double end) {
    return video_clip(decoder, {begin, end}, VideoUnit::kSeconds).value().times_seconds;
  };
  using Times = std::vector<double>;
  CHECK(times(0.1, 0.1) == Times{0.08});
  CHECK(times(0.12, 0.12) == Times{0.12});
  CHECK(times(0.08, 0.16) == Times{0.08, 0.12, 0.16});
  CHECK(times(0.7, 99) == Times{0.68, 0.72, 0.76});
  CHECK(times(0.0, 0.0399) == Times{0});
  CHECK(times(0, std::numeric_limits<double>::infinity()).size() == 20);
  const auto clip = video_clip(decoder, {0.1, 0.14}, VideoUnit::kSeconds);
  CHECK(clip->begin_seconds == 0.08);
  CHECK(clip->end_seconds == 0.16);
  // The video of this file starts after its sound.
  AvDecoder late = decoder_of("h264_aac.flv");
  CHECK(video_clip(late, {0, 0}, VideoUnit::kSeconds)->times_seconds == Times{0.023});
}

TEST_CASE("ranges after the end are empty, and invalid ranges are refused", "[media][av]") {
  AvDecoder decoder = decoder_of("h264_aac.mp4");
  CHECK_FALSE(video_clip(decoder, {20, 25}, VideoUnit::kFrames).has_value());
  CHECK_FALSE(video_clip(decoder, {0.8, 2}, VideoUnit::kSeconds).has_value());
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const ClipRange range :
       {ClipRange{2, 1}, {-1, 1}, {nan, 1}, {0, nan}, {infinity, infinity}}) {
    CAPTURE(range.begin, range.end);
    CHECK_THROWS_WITH(video_clip(decoder, range, VideoUnit::kFrames),
                      Catch::Contains("expected a range"));
    CHECK_THROWS_WITH(video_clip(decoder, range, VideoUnit::kSeconds),
                      Catch::Contains("expected a range"));
  }
  CHECK_THROWS_WITH(video_clip(decoder, {0.5, 2}, VideoUnit::kFrames),
                    Catch::Contains("must be integers"));
  AvDecoder sound = decoder_of("mono.mp3");
  CHECK_THROWS_WITH(video_clip(sound, {0, 1}, VideoUnit::kFrames), Catch::Contains("no video"));
}

TEST_CASE("frames are resized bilinearly, as by ffmpeg", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder decoder = decoder_of("h264_aac.mp4");
  const VideoClip clip = decoder.video(FrameSize{.width = 20, .height = 14}, memory);
  CHECK(clip.frames.shape == Shape{20, 3, 14, 20});
  CHECK(frame_hashes(clip) == kResizedFrames);
  CHECK_THROWS_WITH(decoder.video(FrameSize{.width = 0, .height = 14}, memory),
                    Catch::Contains("0 x 14"));
}

TEST_CASE("frames that change their size in a clip need a size", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder decoder = decoder_of("two_sizes.mkv");
  CHECK_THROWS_WITH(
      decoder.video(std::nullopt, memory),
      Catch::Contains("frame 2 has 24 x 16 pixels, frame 0") && Catch::Contains("pass a size"));
  CHECK(video_clip(decoder, {2, 3}, VideoUnit::kFrames)->frames.shape == Shape{2, 3, 16, 24});
  CHECK(frame_hashes(decoder.video(FrameSize{.width = 20, .height = 14}, memory)) ==
        kTwoSizesFrames);
}

TEST_CASE("a clip is written into memory of the caller", "[media][av]") {
  AvDecoder decoder = decoder_of("h264_mp3.mkv");
  const auto spec = decoder.probe_clip({5, 8}, VideoUnit::kFrames, std::nullopt);
  REQUIRE(spec.has_value());
  CHECK(spec->shape == Shape{4, 3, 24, 32});
  std::vector<std::byte> memory(4 * 3 * 24 * 32 + 1);  // + 1: not aligned
  const VideoClip clip = decoder.decode_clip_into({5, 8}, VideoUnit::kFrames, std::nullopt,
                                                  std::span(memory).subspan(1));
  CHECK(clip.times_seconds.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    const auto frame = std::span(memory).subspan(1 + i * 3 * 24 * 32, 3 * 24 * 32);
    CHECK(energon::xxh3_64(frame) == expected("h264_mp3.mkv").frame_hashes[5 + i].second);
  }
  CHECK_THROWS_WITH(
      decoder.decode_clip_into({5, 8}, VideoUnit::kFrames, std::nullopt, std::span(memory)),
      Catch::Contains("9216 bytes, but the memory for it has 9217"));
  CHECK_FALSE(decoder.probe_clip({20, 21}, VideoUnit::kFrames, std::nullopt).has_value());
  CHECK_THROWS_WITH(decoder.decode_clip_into({20, 21}, VideoUnit::kFrames, std::nullopt, memory),
                    Catch::Contains("after the end"));
}

TEST_CASE("widths with and without padding give the same pixels", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder decoder = decoder_of("two_sizes.mkv");
  const FrameSize aligned = {.width = 64, .height = 8};  // written directly
  const auto direct = video_clip(decoder, {0, 0}, VideoUnit::kFrames, aligned);
  std::vector<std::byte> unaligned(3 * 64 * 8 + 1);
  decoder.decode_clip_into({0, 0}, VideoUnit::kFrames, aligned, std::span(unaligned).subspan(1));
  CHECK(energon::xxh3_64(std::span(unaligned).subspan(1)) == frame_hashes(*direct)[0]);
}

TEST_CASE("limits are checked before memory is allocated", "[media][av]") {
  energon::HeapBufferPool memory;
  const auto bytes = av_bytes(av_file("h264_aac.mp4"));
  AvDecoder pixels(bytes, {.limits = {.max_pixels = 32 * 24 - 1}});
  CHECK_THROWS_WITH(pixels.video(std::nullopt, memory),
                    Catch::Contains("32 x 24 pixels") && Catch::Contains("max_pixels"));
  AvDecoder clip(bytes, {.limits = {.max_bytes = 3 * 24 * 32 * 5 - 1}});
  CHECK(video_clip(clip, {0, 3}, VideoUnit::kFrames).has_value());
  CHECK_THROWS_WITH(video_clip(clip, {0, 4}, VideoUnit::kFrames), Catch::Contains("max_bytes"));
  AvDecoder resized(bytes);
  CHECK_THROWS_WITH(resized.video(FrameSize{.width = 1 << 20, .height = 1 << 20}, memory),
                    Catch::Contains("max_pixels"));
  CHECK_THROWS_WITH(video_clip(clip, {0, 0}, VideoUnit::kFrames, FrameSize{1000, 1000}),
                    Catch::Contains("max_bytes"));
}

TEST_CASE("decoders of several threads do not disturb each other", "[media][av]") {
  const auto bytes = av_bytes(av_file("h264_aac.mp4"));
  std::array<std::vector<std::uint64_t>, 4> hashes;
  std::vector<std::thread> threads;
  for (auto& result : hashes) {
    threads.emplace_back([&] {
      energon::HeapBufferPool memory;
      AvDecoder decoder(bytes);
      result = frame_hashes(decoder.video(std::nullopt, memory));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& result : hashes) {
    CAPTURE(&result - hashes.data());
    CHECK(result == expected_hashes(expected("h264_aac.mp4"), 0, 19));
  }
}

TEST_CASE("a decoder may be moved", "[media][av]") {
  AvDecoder first = decoder_of("h264_aac.mp4");
  CHECK(first.video_frame_count() == 20);
  AvDecoder second = std::move(first);
  CHECK(video_clip(second, {7, 7}, VideoUnit::kFrames).has_value());
  second = decoder_of("mpeg4.avi");
  CHECK(second.video_frame_count() == 10);
}
