// Damaged, truncated and hostile files end with an Error, or yield exactly the frames that they
// contain.

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/media/av/av_files.h"
#include "tests/media/av/expected.h"
#include "tests/support/error_of.h"

using energon::AvDecoder;
using energon::ErrorCode;
using energon::testing::audio_clip;
using energon::testing::av_bytes;
using energon::testing::av_file;
using energon::testing::error_of;
using energon::testing::ExpectedFile;
using energon::testing::frame_hashes;
using energon::testing::kTinyFiles;
using energon::testing::video_clip;

namespace {

struct Decoded {
  std::int64_t frames = 0;
  std::int64_t samples = 0;
};

Decoded decode_all(const std::string& content) {
  energon::HeapBufferPool memory;
  AvDecoder decoder(av_bytes(content), {.limits = {.max_pixels = 1 << 20, .max_bytes = 1 << 24}});
  const energon::VideoWithAudio clip = decoder.video_with_audio(std::nullopt, memory);
  return {clip.video ? clip.video->frames.shape.at(0) : 0,
          clip.audio ? clip.audio->samples.shape.at(1) : 0};
}

// The name of the code of the Error, or "decoded".
std::string outcome(const std::string& content) {
  try {
    decode_all(content);
    return "decoded";
  } catch (const energon::Error& error) {
    return std::string(to_string(error.code()));
  }
}

void put_big_endian(std::string& content, std::size_t at, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    content.at(at++) = static_cast<char>(value >> shift & 0xFF);
  }
}

}  // namespace

TEST_CASE("a truncated file is an error, never a shorter clip", "[media][av]") {
  for (const ExpectedFile& file : kTinyFiles) {
    const std::string content = av_file(file.name);
    const bool is_told = file.name != "mono.aac";  // missing frames of ADTS leave no trace
    for (std::size_t size = 0; size < content.size(); size += size < 600 ? 1 : 23) {
      INFO(file.name << " truncated to " << size);
      try {
        const Decoded decoded = decode_all(content.substr(0, size));
        const bool is_whole = decoded.frames == file.frames && decoded.samples == file.samples;
        CHECK((is_whole || !is_told));
      } catch (const energon::Error& error) {
        const bool is_named =
            error.code() == ErrorCode::kCorruptData || error.code() == ErrorCode::kUnsupported;
        CHECK(is_named);
      }
    }
  }
}

TEST_CASE("flipped bits are harmless", "[media][av]") {
  for (const ExpectedFile& file : kTinyFiles) {
    const std::string content = av_file(file.name);
    const bool has_checksums = file.name.ends_with(".ogg") || file.name.ends_with(".flac");
    for (std::size_t at = 0; at < content.size(); at += at < 100 ? 1 : 11) {
      INFO(file.name << " byte " << at);
      std::string damaged = content;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
      const std::string result = outcome(damaged);
      CHECK((result == "decoded" || result == "corrupt_data" || result == "unsupported" ||
             result == "resource_exhausted"));
      if (has_checksums && at > 100) {
        CHECK(result == "corrupt_data");
      }
    }
  }
}

TEST_CASE("data that is not sound or video is refused", "[media][av]") {
  CHECK_THAT(error_of([] { decode_all(""); }, ErrorCode::kCorruptData),
             Catch::Contains("is empty"));
  CHECK_THAT(error_of([] { decode_all(std::string(5000, 'x')); }, ErrorCode::kUnsupported),
             Catch::Contains("is not supported sound or video"));
  // Formats that would read other files.
  CHECK(outcome("#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n") == "unsupported");
  CHECK(outcome("ffconcat version 1.0\nfile /etc/hostname\n") == "unsupported");
}

TEST_CASE("damage in the middle is reported with the second, and other frames are still read",
          "[media][av]") {
  std::string content = av_file("mpeg4.avi");
  const std::size_t index = content.find("idx1");
  REQUIRE(index != std::string::npos);
  for (std::size_t at = index - 30; at < index - 2; ++at) {
    content[at] = '\xff';  // in the last frame
  }
  AvDecoder decoder(av_bytes(content));
  CHECK_THAT(error_of(
                 [&] {
                   video_clip(decoder, {9, 9}, energon::VideoUnit::kFrames);
                 },
                 ErrorCode::kCorruptData),
             Catch::Contains("damaged at second 0.360 (frame 9 of 10)"));
  CHECK(frame_hashes(*video_clip(decoder, {4, 4}, energon::VideoUnit::kFrames)).size() == 1);
  std::string flac = av_file("stereo24.flac");
  flac[flac.size() - 40] = static_cast<char>(flac[flac.size() - 40] ^ 1);
  AvDecoder sound(av_bytes(flac));
  CHECK(audio_clip(sound, {0, 99}, energon::AudioUnit::kSamples).has_value());
  CHECK_THAT(error_of([&] { sound.audio_sample_count(); }, ErrorCode::kCorruptData),
             Catch::Contains("the sound is damaged at second"));
}

TEST_CASE("tables that describe more than the file are refused", "[media][av]") {
  const std::string content = av_file("h264_aac.mp4");
  std::string sizes = content;
  put_big_endian(sizes, sizes.find("stsz") + 8, 1);  // all samples have one byte,
  put_big_endian(sizes, sizes.find("stsz") + 12, 0x7fffffff);
  CHECK_THAT(error_of([&] { decode_all(sizes); }, ErrorCode::kCorruptData),
             Catch::Contains("2147483647 samples"));
  std::string chunks = content;
  put_big_endian(chunks, chunks.find("stsc") + 16, 0x7fffffff);
  CHECK_THAT(error_of([&] { decode_all(chunks); }, ErrorCode::kCorruptData),
             Catch::Contains("samples; a file of"));
  std::string edits = content;
  put_big_endian(edits, edits.find("elst") + 8, 0x7fffffff);
  CHECK(outcome(edits) == "corrupt_data");
  std::string compressed = content;
  compressed.replace(compressed.find("mvhd"), 4, "cmov");
  CHECK_THAT(error_of([&] { decode_all(compressed); }, ErrorCode::kUnsupported),
             Catch::Contains("compressed"));
}

TEST_CASE("absurd sizes of frames are refused before decoding", "[media][av]") {
  std::string content = av_file("vp8.webm");
  const std::size_t key = content.find(std::string("\x9d\x01\x2a", 3));  // of a VP8 key frame
  REQUIRE(key != std::string::npos);
  for (std::size_t at = key; at != std::string::npos; at = content.find("\x9d\x01\x2a", at + 1)) {
    content.replace(at + 3, 4, "\xff\x0f\xff\x0f");
  }
  energon::HeapBufferPool memory;
  AvDecoder decoder(av_bytes(content), {.limits = {.max_pixels = 1 << 20}});
  CHECK_THROWS_WITH(decoder.video(std::nullopt, memory), Catch::Contains("max pixel count"));
}
