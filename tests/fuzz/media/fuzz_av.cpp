// Audio and video in the containers of one family: ENERGON_FUZZ_FAMILY.

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "media/av/av_container.h"
#include "media/av/av_decoder.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/checksums.h"
#include "tests/fuzz/media/choices.h"
#include "tests/fuzz/media/exact_memory.h"

namespace energon::fuzz {
namespace {

enum class Family { kMp4, kMatroska, kAviAndFlv, kSound };
constexpr Family kFamily = Family::ENERGON_FUZZ_FAMILY;

void begin_with(std::string& file, std::size_t at, std::string_view signature) {
  if (file.size() >= at + signature.size()) {
    file.replace(at, signature.size(), signature);
  }
}

// The input as a file of the family, with its magic and checksums fixed.
std::string file_of(ByteView input) {
  std::string file(as_text(input));
  const AvContainer container = recognize_av_container(input);
  if (kFamily == Family::kMp4 && container != AvContainer::kMp4) {
    begin_with(file, 4, "ftyp");
  } else if (kFamily == Family::kMatroska && container != AvContainer::kMatroska) {
    begin_with(file, 0, "\x1A\x45\xDF\xA3");
  } else if (kFamily == Family::kAviAndFlv && container != AvContainer::kRiff &&
             container != AvContainer::kFlv) {
    begin_with(file, 0, "RIFF");
    begin_with(file, 8, "AVI ");
  } else if (container == AvContainer::kOgg) {
    mend_ogg(file);
  }
  return file;
}

// Seconds from -1 to 30, rarely infinity.
double second_of(std::size_t byte) {
  return byte == 255 ? std::numeric_limits<double>::infinity() : static_cast<double>(byte) / 8 - 1;
}

ClipRange range_of(Choices& choices, bool in_seconds) {
  const std::size_t begin = choices.byte();
  const std::size_t length = choices.byte();
  if (in_seconds) {
    return {second_of(begin), second_of(begin) + static_cast<double>(length) / 16};
  }
  return {static_cast<double>(begin), static_cast<double>(begin + length)};
}

std::optional<FrameSize> size_of_frames(Choices& choices) {
  const std::size_t byte = choices.byte();
  if (byte < 128) {
    return std::nullopt;
  }
  return FrameSize{static_cast<int>(byte % 16), static_cast<int>(byte / 16)};
}

void check_video(const VideoClip& clip) {
  check_tensor(clip.frames);
  const std::vector<std::int64_t>& shape = clip.frames.shape;
  require(shape.size() == 4 && shape[1] == 3);
  require(shape[0] == static_cast<std::int64_t>(clip.times_seconds.size()) && shape[0] > 0);
}

void check_audio(const AudioClip& clip) {
  check_tensor(clip.samples);
  require(clip.samples.shape.size() == 2 && clip.samples.shape[1] > 0);
}

void check_metadata(ByteView file) {
  const AvMetadata metadata =
      read_av_metadata(file, {.count_frames = true, .count_samples = true}, kFuzzLimits);
  require(metadata.video_frames.value_or(1) > 0);
  require(metadata.audio_samples.value_or(0) >= 0);
}

void check_video_clips(AvDecoder& decoder, Choices& choices) {
  const bool in_seconds = choices.yes();
  const std::optional<FrameSize> size = size_of_frames(choices);
  const std::array ranges = {range_of(choices, in_seconds), range_of(choices, in_seconds)};
  ExactMemory memory;
  for (const auto& clip : decoder.video_clips(
           ranges, in_seconds ? VideoUnit::kSeconds : VideoUnit::kFrames, size, memory)) {
    if (clip) {
      check_video(*clip);
    }
  }
}

void check_audio_clips(AvDecoder& decoder, Choices& choices) {
  const bool in_seconds = choices.yes();
  const std::array ranges = {range_of(choices, in_seconds), range_of(choices, in_seconds)};
  ExactMemory memory;
  for (const auto& clip : decoder.audio_clips(
           ranges, in_seconds ? AudioUnit::kSeconds : AudioUnit::kSamples, memory)) {
    if (clip) {
      check_audio(*clip);
    }
  }
}

// Checks that decode_clip_into() writes exactly what probe_clip() announces.
void check_clip_into(AvDecoder& decoder, Choices& choices) {
  const std::optional<FrameSize> size = size_of_frames(choices);
  const ClipRange range = range_of(choices, false);
  const std::optional<TensorSpec> spec = decoder.probe_clip(range, VideoUnit::kFrames, size);
  if (!spec) {
    return;
  }
  std::vector<std::byte> pixels(tensor_bytes(spec->dtype, spec->shape));
  const VideoClip clip = decoder.decode_clip_into(range, VideoUnit::kFrames, size, pixels);
  require(static_cast<std::int64_t>(clip.times_seconds.size()) == spec->shape.at(0));
}

void check_places(AvDecoder& decoder, Choices& choices) {
  ExactMemory memory;
  const std::optional<FrameSize> size = size_of_frames(choices);
  if (choices.yes()) {
    const std::array seconds = {second_of(choices.byte()), second_of(choices.byte())};
    check_video(decoder.video_frames_at(seconds, size, memory));
  } else if (choices.yes()) {
    const auto frames = static_cast<std::int64_t>(choices.below(5));
    check_video(frames_uniform(decoder, frames, size, memory));
  } else {
    const double seconds = second_of(choices.byte());
    const auto clips = static_cast<std::int64_t>(choices.below(4));
    for (const VideoClip& clip :
         clips_uniform(decoder, seconds, clips, {.size = size, .with_audio = true}, memory).video) {
      check_video(clip);
    }
  }
}

void check_all(AvDecoder& decoder, Choices& choices) {
  ExactMemory memory;
  const VideoWithAudio all = decoder.video_with_audio(size_of_frames(choices), memory);
  if (all.video) {
    check_video(*all.video);
  }
  if (all.audio) {
    check_audio(*all.audio);
  }
}

void check_file(const SharedBytes& file, Choices& choices) {
  const std::size_t what = choices.below(6);
  const auto access = choices.yes() ? AudioAccess::kFast : AudioAccess::kExact;
  AvDecoder decoder(file, {.limits = kFuzzLimits, .audio_access = access});
  switch (what) {
    case 0:
      return check_all(decoder, choices);
    case 1:
      return check_video_clips(decoder, choices);
    case 2:
      return check_audio_clips(decoder, choices);
    case 3:
      return check_clip_into(decoder, choices);
    case 4:
      return check_places(decoder, choices);
    default:
      return check_metadata(file.view);
  }
}

}  // namespace
}  // namespace energon::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  fuzz::Choices choices(data, size);
  const auto file = std::make_shared<std::string>(fuzz::file_of(choices.rest()));
  return fuzz::try_to_read(
      [&] { fuzz::check_file({.view = as_bytes(*file), .owner = file}, choices); });
}
