// Video clips with FFmpeg's libraries alone, as in a hand-written loop: the baseline of the video
// benchmark.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/support/ffmpeg_owners.h"
#include "io/bytes.h"
#include "media/av/av_decoder.h"

namespace energon::bench {

/// Presentation times of the frames of a video, ascending, in the stream's time base. Throws Error
/// (kInternal).
std::vector<std::int64_t> frame_times(ByteView file);

enum class ClipPixels {
  kExact,   ///< uint8 (frames, 3, height, width): the bytes of AvDecoder, on every processor
  kPlanar,  ///< the same shape, by the fastest bilinear code that libswscale has for it
  kPacked,  ///< uint8 (frames, height, width, 3), by the fastest bilinear code for that
};

/// Reuses the converter for all clips. Not thread-safe: one per thread.
class BareClip {
 public:
  /// Clips of `frames` frames, resized to `size` if set.
  BareClip(int frames, std::optional<FrameSize> size, ClipPixels pixels);

  /// Opens the file, seeks to the key frame before `first_time`, which must be one of
  /// frame_times(), decodes in this thread and converts into `to`, which must have exactly the
  /// bytes of the clip. Throws Error (kInternal), also if the clip has fewer frames.
  void run(ByteView file, std::int64_t first_time, std::span<std::byte> to);

 private:
  void convert(const AVFrame& frame, std::span<std::byte> to);
  void prepare(const AVFrame& frame, FrameSize size);

  const int frames_;
  const std::optional<FrameSize> size_;
  const ClipPixels pixels_;
  FfmpegPtr<SwsContext> scaler_;
  FrameSize prepared_for_;
  std::vector<std::byte> planes_;
};

}  // namespace energon::bench
