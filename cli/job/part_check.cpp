#include "cli/job/part_check.h"

#include <algorithm>
#include <exception>

#include "cli/show/decoding_failure.h"
#include "media/av/av_decoder.h"
#include "media/data/gzip.h"
#include "media/decode/sample_decoder.h"

namespace energon::cli {
namespace {

constexpr std::int64_t kFramesAtOnce = 256;
constexpr FrameSize kTinyFrame = {.width = 16, .height = 16};  // saves time; all is decoded anyway

// All frames and samples, some frames at a time, so that long videos need little memory.
void decode_to_the_end(const SharedBytes& file, BufferAllocator& memory) {
  AvDecoder decoder(file);
  const std::int64_t frames = decoder.has_video() ? decoder.video_frame_count() : 0;
  for (std::int64_t first = 0; first < frames; first += kFramesAtOnce) {
    const std::int64_t last = std::min(first + kFramesAtOnce, frames) - 1;
    const ClipRange range = {static_cast<double>(first), static_cast<double>(last)};
    decoder.video_clips({&range, 1}, VideoUnit::kFrames, kTinyFrame, memory);
  }
  if (decoder.has_audio()) {
    decoder.audio_sample_count();
  }
}

}  // namespace

PartCheck::PartCheck() : decoder_({.image = "rgb8", .av = AvMode::kTensors}) {}

std::optional<std::string> PartCheck::check(std::string_view part, const ReadPart& read) {
  if (!content_kind_of_name(part) && !name_inside_gzip(part)) {
    return std::nullopt;
  }
  const SharedBytes content = read();
  ++count_;
  try {
    decode(part, content);
    return std::nullopt;
  } catch (const std::exception& error) {
    return "cannot be decoded: " + reason_of_failure(error);
  }
}

void PartCheck::decode(std::string_view part, const SharedBytes& content) {
  if (const auto inside = name_inside_gzip(part)) {
    decode(*inside, expand_gzip(content.view, {}, memory_));
  } else if (content_kind_of_name(part) == ContentKind::kAv) {
    decode_to_the_end(content, memory_);
  } else {
    decoder_.decode_part(part, content, memory_);
  }
}

}  // namespace energon::cli
