// Larger files of the shared test data, against the program ffmpeg (make_vectors.py --shared).

#include <catch2/catch.hpp>

#include "tests/media/av/av_files.h"
#include "tests/media/av/expected_shared.h"
#include "tests/support/shared_data.h"

using energon::AvDecoder;
using energon::testing::audio_clip;
using energon::testing::av_bytes;
using energon::testing::av_file;
using energon::testing::ExpectedFile;
using energon::testing::frame_hashes;
using energon::testing::is_part_of;
using energon::testing::kSharedFiles;
using energon::testing::scattered;
using energon::testing::shared_data;
using energon::testing::skipped;
using energon::testing::video_clip;

TEST_CASE("frames of real files are exact in every container and order", "[media][av]") {
  const auto folder = shared_data("av");
  if (!folder) {
    return skipped();
  }
  for (const ExpectedFile& file : kSharedFiles) {
    AvDecoder decoder(av_bytes(av_file(*folder + "/" + file.name)));
    REQUIRE(decoder.has_video() == (file.frames > 0));
    if (file.frames > 0) {
      CHECK(decoder.video_frame_count() == file.frames);
    }
    for (const std::size_t i : scattered(file.frame_hashes.size())) {
      const auto& [number, hash] = file.frame_hashes[i];
      INFO(file.name << " frame " << number);
      const auto clip =
          video_clip(decoder, {double(number), double(number)}, energon::VideoUnit::kFrames);
      REQUIRE(clip.has_value());
      CHECK(frame_hashes(*clip) == std::vector<std::uint64_t>{hash});
    }
  }
}

TEST_CASE("samples of real files are exact in every container and order", "[media][av]") {
  const auto folder = shared_data("av");
  if (!folder) {
    return skipped();
  }
  energon::HeapBufferPool memory;
  for (const ExpectedFile& file : kSharedFiles) {
    INFO(file.name);
    const energon::SharedBytes bytes = av_bytes(av_file(*folder + "/" + file.name));
    const energon::AudioClip all = AvDecoder(bytes).audio(memory);
    CHECK(all.samples.shape == std::vector<std::int64_t>{file.channels, file.samples});
    CHECK(energon::xxh3_64(all.samples.data.view) == file.sound_hash);
    AvDecoder decoder(bytes);
    for (const std::size_t place : scattered(7)) {
      const std::int64_t first = file.samples * static_cast<std::int64_t>(place) / 7;
      const auto clip =
          audio_clip(decoder, {double(first), double(first + 4799)}, energon::AudioUnit::kSamples);
      REQUIRE(clip.has_value());
      CHECK(clip->samples.shape.at(1) == 4800);
      CHECK(is_part_of(*clip, all, first));
    }
  }
}
