// Samples equal those that the program ffmpeg decodes (make_vectors.py).

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "media/transform/sound_transform.h"
#include "tests/media/av/av_files.h"
#include "tests/media/av/expected.h"

using energon::AudioAccess;
using energon::AudioClip;
using energon::AudioUnit;
using energon::AvDecoder;
using energon::DType;
using energon::testing::audio_clip;
using energon::testing::av_bytes;
using energon::testing::av_file;
using energon::testing::ExpectedFile;
using energon::testing::is_part_of;
using energon::testing::kTinyFiles;
using energon::testing::scattered;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

AvDecoder sound_of(const std::string& name, AudioAccess access = AudioAccess::kExact) {
  return AvDecoder(av_bytes(av_file(name)), {.audio_access = access});
}

AudioClip all_samples(const std::string& name) {
  energon::HeapBufferPool memory;
  return sound_of(name).audio(memory);
}

}  // namespace

TEST_CASE("all samples of a sound equal those of ffmpeg, without priming", "[media][av]") {
  for (const ExpectedFile& file : kTinyFiles) {
    INFO(file.name);
    REQUIRE(sound_of(file.name).has_audio() == (file.channels > 0));
    if (file.channels == 0) {
      continue;
    }
    const AudioClip clip = all_samples(file.name);
    CHECK(clip.samples.shape == std::vector<std::int64_t>{file.channels, file.samples});
    CHECK(clip.sample_rate == file.sample_rate);
    CHECK(energon::xxh3_64(clip.samples.data.view) == file.sound_hash);
    CHECK(sound_of(file.name).audio_sample_count() == file.samples);
    CHECK(clip.end_seconds - clip.begin_seconds ==
          Approx(static_cast<double>(file.samples) / file.sample_rate));
    CHECK(sound_of(file.name).audio_duration_seconds() == Approx(clip.end_seconds));
  }
}

TEST_CASE("sound in Matroska begins at the same sample as in MP4", "[media][av]") {
  struct DelayedSound {
    const char* name;
    std::int64_t samples;  // in Matroska, as FFmpeg 8.1 decodes them; MP4 keeps padding at the end
  };
  for (const auto& [name, samples] : {DelayedSound{"delay_aac", 13312},
                                      {"delay_mp3", 13000},
                                      {"delay_ac3", 13568},
                                      {"delay_opus", 13000}}) {
    const std::string matroska = std::string(name) + ".mkv";
    const std::string mp4 = std::string(name) + ".mp4";
    CAPTURE(name);
    const AudioClip all = all_samples(matroska);
    const AudioClip same = all_samples(mp4);
    CHECK(all.samples.shape.at(1) == samples);
    REQUIRE(all.samples.shape.at(1) <= same.samples.shape.at(1));
    CHECK(is_part_of(all, same, 0));
    CHECK(all.begin_seconds == 0);
    CHECK(sound_of(matroska).audio_sample_count() == samples);
    CHECK(sound_of(matroska).audio_duration_seconds() ==
          Approx(static_cast<double>(samples) / all.sample_rate));
    for (const AudioAccess access : {AudioAccess::kExact, AudioAccess::kFast}) {
      AvDecoder decoder = sound_of(matroska, access);
      AvDecoder other = sound_of(mp4, access);
      for (const std::size_t place : scattered(23)) {
        const double first = static_cast<double>(samples * static_cast<std::int64_t>(place) / 23);
        CAPTURE(first);
        const auto clip = audio_clip(decoder, {first, first + 499}, AudioUnit::kSamples);
        const auto expected = audio_clip(other, {first, first + 499}, AudioUnit::kSamples);
        REQUIRE((clip.has_value() && clip->samples.shape.at(1) == 500));
        CHECK(is_part_of(*clip, access == AudioAccess::kExact ? same : *expected,
                         access == AudioAccess::kExact ? static_cast<std::int64_t>(first) : 0));
        const energon::ClipRange seconds = {first / all.sample_rate,
                                            first / all.sample_rate + 0.01};
        const auto timed = audio_clip(decoder, seconds, AudioUnit::kSeconds);
        REQUIRE(timed.has_value());
        CHECK(is_part_of(*timed, *audio_clip(other, seconds, AudioUnit::kSeconds), 0));
      }
    }
  }
}

TEST_CASE("samples have the format of the codec", "[media][av]") {
  CHECK(all_samples("mono.wav").samples.dtype == DType::kInt16);
  CHECK(all_samples("stereo24.flac").samples.dtype == DType::kInt32);
  CHECK(all_samples("mono.mp3").samples.dtype == DType::kFloat32);
  CHECK(all_samples("mono_opus.ogg").samples.dtype == DType::kFloat32);
}

TEST_CASE("clips of sound are exact in every order of access", "[media][av]") {
  for (const ExpectedFile& file : kTinyFiles) {
    if (file.channels == 0) {
      continue;
    }
    const AudioClip all = all_samples(file.name);
    AvDecoder decoder = sound_of(file.name);
    for (const std::size_t place : scattered(41)) {
      const std::int64_t first = file.samples * static_cast<std::int64_t>(place) / 41;
      const std::int64_t last = std::min(first + 700, file.samples - 1);
      INFO(file.name << " " << first << " to " << last);
      const auto clip = audio_clip(decoder, {double(first), double(last)}, AudioUnit::kSamples);
      REQUIRE(clip.has_value());
      CHECK(clip->samples.shape.at(1) == last - first + 1);
      CHECK(is_part_of(*clip, all, first));
      CHECK(clip->begin_seconds - all.begin_seconds ==
            Approx(double(first) / file.sample_rate).margin(1e-9));
    }
  }
}

TEST_CASE("fast access is at the right place and depends only on the clip", "[media][av]") {
  for (const ExpectedFile& file : kTinyFiles) {
    if (file.channels == 0) {
      continue;
    }
    const std::int64_t last = file.samples - 1;
    const energon::ClipRange range = {double(last - last / 4), double(last)};
    AvDecoder fresh = sound_of(file.name, AudioAccess::kFast);
    const auto alone = audio_clip(fresh, range, AudioUnit::kSamples);
    AvDecoder used = sound_of(file.name, AudioAccess::kFast);
    audio_clip(used, {double(last / 3), double(last / 2)}, AudioUnit::kSamples);
    CHECK(used.audio_sample_count() == file.samples);
    const auto after = audio_clip(used, range, AudioUnit::kSamples);
    INFO(file.name);
    REQUIRE(alone->samples.shape.at(1) == last / 4 + 1);
    CHECK(is_part_of(*after, *alone, 0));
    const AudioClip all = all_samples(file.name);
    double worst = 0;
    for (std::int64_t i = 0; all.samples.dtype == DType::kFloat32 && i <= last / 4; ++i) {
      const auto* fast = reinterpret_cast<const float*>(alone->samples.data.view.data());
      const auto* exact = reinterpret_cast<const float*>(all.samples.data.view.data());
      worst = std::max<double>(worst, std::abs(fast[i] - exact[last - last / 4 + i]));
    }
    CHECK(worst < 0.2);  // a sweep that is one sample off differs by more
  }
}

TEST_CASE("a range of seconds has as many samples as its length", "[media][av]") {
  AvDecoder decoder = sound_of("mono.wav");  // 8000 Hz
  const AudioClip all = all_samples("mono.wav");
  const auto clip = audio_clip(decoder, {0.01, 0.02}, AudioUnit::kSeconds);
  CHECK(clip->samples.shape.at(1) == 80);
  CHECK(is_part_of(*clip, all, 80));
  CHECK(clip->begin_seconds == 0.01);
  CHECK(clip->end_seconds == 0.02);
  CHECK(audio_clip(decoder, {0.02, 0.03}, AudioUnit::kSeconds)->begin_seconds == 0.02);
  CHECK(audio_clip(decoder, {0.02, 0.02}, AudioUnit::kSeconds)->samples.shape.at(1) == 1);
  CHECK(audio_clip(decoder, {0.14, 99}, AudioUnit::kSeconds)->samples.shape.at(1) == 80);
  CHECK(audio_clip(decoder, {0, kInfinity}, AudioUnit::kSeconds)->samples.shape.at(1) == 1200);
  CHECK_FALSE(audio_clip(decoder, {0.15, 1}, AudioUnit::kSeconds).has_value());
  CHECK_FALSE(audio_clip(decoder, {1200, 1300}, AudioUnit::kSamples).has_value());
  CHECK_THROWS_WITH(audio_clip(decoder, {1, 0}, AudioUnit::kSeconds),
                    Catch::Contains("expected a range"));
  CHECK_THROWS_WITH(audio_clip(decoder, {0, 0.5}, AudioUnit::kSamples),
                    Catch::Contains("must be integers"));
}

TEST_CASE("sound above the limit is refused, and video has none", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder decoder(av_bytes(av_file("mono.wav")), {.limits = {.max_bytes = 2000}});
  CHECK(audio_clip(decoder, {0, 999}, AudioUnit::kSamples).has_value());
  CHECK_THROWS_WITH(decoder.audio(memory), Catch::Contains("max_bytes"));
  CHECK(audio_clip(decoder, {5, 9}, AudioUnit::kSamples).has_value());
  AvDecoder video = sound_of("vp8.webm");
  CHECK_THROWS_WITH(video.audio(memory), Catch::Contains("no sound"));
}

TEST_CASE("video and sound come together", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder both = sound_of("h264_aac.mp4");
  const energon::VideoWithAudio clip = both.video_with_audio(std::nullopt, memory);
  CHECK(clip.video->frames.shape.at(0) == 20);
  CHECK(clip.audio->samples.shape.at(1) == 22528);
  CHECK_FALSE(sound_of("mono.mp3").video_with_audio(std::nullopt, memory).video.has_value());
  CHECK_FALSE(sound_of("vp8.webm").video_with_audio(std::nullopt, memory).audio.has_value());
}

namespace {

// A sine of 440 Hz in one channel.
energon::Tensor sine(int rate, std::int64_t samples) {
  energon::NewTensor made =
      energon::new_tensor(DType::kInt16, {1, samples}, energon::heap_memory());
  for (std::int64_t i = 0; i < samples; ++i) {
    const double turn = 2 * std::numbers::pi * 440 * static_cast<double>(i) / rate;
    const auto level = static_cast<std::int16_t>(std::lround(16384 * std::sin(turn)));
    std::memcpy(made.bytes.data() + 2 * i, &level, sizeof(level));
  }
  return std::move(made.tensor);
}

std::vector<float> floats_of(const energon::Tensor& tensor) {
  std::vector<float> values(tensor.data.view.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.view.data(), tensor.data.view.size());
  return values;
}

energon::Tensor resample(const energon::Tensor& sound, int from, int to) {
  return energon::resampled(sound, from, to, {}, energon::heap_memory());
}

}  // namespace

// python/tests/test_av.py compares every sample with a filter in NumPy.
TEST_CASE("a resampled sine is the sine of the other rate", "[media][av]") {
  for (const auto& [from, to] : {std::pair(44100, 16000), std::pair(16000, 44100)}) {
    CAPTURE(from, to);
    const energon::Tensor made = resample(sine(from, 2001), from, to);
    CHECK(made.dtype == DType::kFloat32);
    const std::vector<float> values = floats_of(made);
    REQUIRE(std::ssize(values) == (std::int64_t{2001} * to + from - 1) / from);
    for (std::size_t i = 100; i + 100 < values.size(); ++i) {
      const double turn = 2 * std::numbers::pi * 440 * static_cast<double>(i) / to;
      REQUIRE(values[i] == Approx(std::sin(turn) / 2).margin(0.003));
    }
  }
}

TEST_CASE("resampling refuses impossible rates and keeps limits", "[media][av]") {
  const std::vector<float> same = floats_of(resample(sine(8000, 5), 8000, 8000));
  CHECK(same[1] == Approx(std::sin(2 * std::numbers::pi * 440 / 8000) / 2).margin(1e-4));
  const energon::Tensor sound = sine(8000, 100);
  for (const int rate : {0, -1, energon::kLeastSampleRate - 1, energon::kMostSampleRate + 1}) {
    CHECK_THROWS_WITH(resample(sound, 8000, rate), Catch::Contains("expected 100 to 768000"));
    CHECK_THROWS_WITH(resample(sound, rate, 8000), Catch::Contains("expected 100 to 768000"));
  }
  CHECK_THROWS_WITH(
      energon::resampled(sound, 8000, 16000, {.max_bytes = 799}, energon::heap_memory()),
      Catch::Contains("the resampled sound"));
  CHECK(resample(sine(8000, 0), 8000, 16000).shape == std::vector<std::int64_t>{1, 0});
}

TEST_CASE("clips of a decoder have its sample rate, at the same times", "[media][av]") {
  energon::HeapBufferPool memory;
  AvDecoder plain = sound_of("mono.wav");
  AvDecoder decoder(av_bytes(av_file("mono.wav")), {.audio_sample_rate = 16000});
  const AudioClip original = plain.audio(memory);
  const AudioClip clip = decoder.audio(memory);
  CHECK(clip.sample_rate == 16000);
  CHECK(clip.begin_seconds == original.begin_seconds);
  CHECK(clip.end_seconds == original.end_seconds);
  CHECK(clip.samples.data.text() ==
        resample(original.samples, original.sample_rate, 16000).data.text());
  CHECK(decoder.audio_sample_rate() == original.sample_rate);  // metadata are those of the file
}
