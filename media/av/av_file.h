// What AvDecoder keeps open: the input, its packets, and a reader for each stream.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/error.h"
#include "media/av/audio_reader.h"
#include "media/av/av_decoder.h"
#include "media/av/clip_span.h"
#include "media/av/frame_planes.h"
#include "media/av/video_reader.h"

namespace energon {

/// Not thread-safe. Functions about a stream throw Error (kInvalidArgument) if the file has none,
/// and what AvDecoder documents.
class AvDecoder::File {
 public:
  File(ByteView file, const AvDecoderOptions& options);

  const AvInput& input() const { return input_; }
  const VideoOrder& order();
  AudioReader& audio();

  /// Bytes of `count` frames; `size` or that of frame `number` for absent sizes.
  FrameSize size_of_frame(std::int64_t number, std::optional<FrameSize> size);
  TensorSpec spec_of(std::span<const std::int64_t> numbers, std::optional<FrameSize> size);
  /// Writes frames (numbers.size(), 3, height, width).
  void write_frames(std::span<const std::int64_t> numbers, std::optional<FrameSize> size,
                    std::span<std::byte> to);
  /// The clip without its tensor.
  VideoClip times_of(std::span<const std::int64_t> numbers);
  VideoClip decode_frames(std::span<const std::int64_t> numbers, std::optional<FrameSize> size,
                          BufferAllocator& memory);
  /// Empty if there is no sample from span.first on.
  std::optional<AudioClip> decode_samples(const ClipSpan& span, BufferAllocator& memory);

 private:
  AvPackets& packets();
  VideoReader& video();

  const AvDecoderOptions options_;
  AvInput input_;
  std::optional<AvPackets> packets_;
  std::optional<Error> packets_error_;  // the input cannot be read twice
  std::optional<VideoOrder> order_;
  std::optional<VideoReader> video_;
  std::optional<AudioReader> audio_;
  FramePlanes planes_;
};

/// span.first, span.first + 1, …
std::vector<std::int64_t> frame_numbers(const ClipSpan& span);

}  // namespace energon
