// Frame numbers: which packet is which frame, in the order of presentation.
//
// Where packets tell their times, one packet is one frame and the sorted times are the order. AVI
// with B-frames, streams that begin in the middle of a group of pictures, field pictures and
// packets without a picture do not tell: then the stream is decoded once to learn the order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "media/av/av_codec.h"

namespace energon {

/// Immutable; frames are those that are shown, numbered from 0.
struct VideoOrder {
  std::vector<std::size_t> packet_of_frame;
  /// By packet; kNoFrame for packets that show none.
  std::vector<std::int64_t> frame_of_packet;
  std::vector<double> times_seconds;  ///< by frame: when it begins to show; never descending
  double end_seconds = 0;             ///< when the last frame ends
  std::vector<std::size_t> key_packets;
  /// Frames that wait for others in the decoder, as the packets tell; 0 if they do not.
  int reorder_frames = 0;

  static constexpr std::int64_t kNoFrame = -1;

  std::int64_t frames() const { return static_cast<std::int64_t>(packet_of_frame.size()); }
  double end_of_frame(std::int64_t frame) const {
    return frame + 1 < frames() ? times_seconds[static_cast<std::size_t>(frame) + 1] : end_seconds;
  }
};

/// Throws Error (kCorruptData) if there is no frame, or if the stream must be decoded and is
/// damaged; and what AvCodec throws.
VideoOrder video_order(const AvInput& input, const AvStreamPackets& packets,
                       const DecodeLimits& limits);

/// Average frames per second; 0 if the container does not tell.
double av_frame_rate(const AVStream& video);

/// What is treated as damage of a video.
AvCodecOptions video_codec_options(const DecodeLimits& limits, int reorder_frames);

}  // namespace energon
