// Frames of a video: their order, decoding of any frame, and conversion to planar RGB.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "media/av/av_codec.h"
#include "media/av/av_decoder.h"
#include "media/decode_limits.h"

struct SwsContext;

namespace energon {

/// Maps packets to frames. Frames are those that are shown, numbered from 0 in presentation order.
/// Immutable.
///
/// If packets contain their times, one packet is one frame and the sorted times are the order.
/// Otherwise the stream is decoded once to learn the order: AVI with B-frames, streams that begin
/// in the middle of a group of pictures, field pictures, packets without a picture.
struct VideoOrder {
  std::vector<std::size_t> packet_of_frame;
  /// Per packet; kNoFrame for packets that do not show a frame.
  std::vector<std::int64_t> frame_of_packet;
  std::vector<double> times_seconds;  ///< presentation time per frame, never descending
  double end_seconds = 0;             ///< end of the last frame
  std::vector<std::size_t> key_packets;
  /// Frames that wait for others in the decoder, if known from the packets, else 0.
  int reorder_frames = 0;

  static constexpr std::int64_t kNoFrame = -1;

  std::int64_t frames() const { return static_cast<std::int64_t>(packet_of_frame.size()); }
  double end_of_frame(std::int64_t frame) const {
    return frame + 1 < frames() ? times_seconds[static_cast<std::size_t>(frame) + 1] : end_seconds;
  }
};

/// Throws Error (kCorruptData) if there is no frame, or if the stream must be decoded and is
/// damaged; and like AvCodec.
VideoOrder video_order(const AvInput& input, const AvStreamPackets& packets,
                       const DecodeLimits& limits);

/// Average frames per second; 0 if the container does not contain it.
double av_frame_rate(const AVStream& video);

/// Decodes any frame of a video, with the same result in every order of access. Not thread-safe.
/// `input`, `packets` and `order` must outlive it.
class VideoReader {
 public:
  VideoReader(const AvInput& input, const AvStreamPackets& packets, const VideoOrder& order,
              const DecodeLimits& limits)
      : input_(input), packets_(packets), order_(order), limits_(limits) {}

  /// Returns frame `number` of the order, valid until the next call. Continues from the last frame
  /// unless a key frame is nearer. Throws Error: kCorruptData with the second if the frame, or one
  /// that it depends on, is damaged; and like AvCodec.
  const AVFrame& frame(std::int64_t number);

 private:
  std::size_t key_before(std::int64_t number) const;
  void restart(std::size_t key);
  bool decode_to(std::int64_t number);
  bool is_damage_of(std::int64_t damaged, std::int64_t number) const;
  [[noreturn]] void throw_damaged(std::int64_t number) const;

  const AvInput& input_;
  const AvStreamPackets& packets_;
  const VideoOrder& order_;
  const DecodeLimits limits_;

  std::unique_ptr<AvCodec> codec_;
  std::int64_t first_number_ = 0;  // the first frame that decoding must produce since the restart
  std::int64_t position_ = -1;     // number of the frame in codec_; -1 if there is none
  bool must_restart_ = true;       // there was damage after position_
  std::string damage_;             // the last damage
};

/// Converts decoded frames to planar RGB, with libswscale. Not thread-safe.
///
/// Applies the color matrix and range that the stream declares (by default ITU-R BT.601, limited
/// range), interpolates color and size bilinearly, and rounds exactly, so that the bytes do not
/// depend on the processor.
class FramePlanes {
 public:
  /// Writes `frame` as uint8 RGB (3, size.height, size.width) to `to`, which must have exactly that
  /// size. Throws Error: kResourceExhausted above limits.max_pixels; kUnsupported if libswscale
  /// cannot convert the pixel format.
  void write(const AVFrame& frame, FrameSize size, const DecodeLimits& limits,
             std::span<std::byte> to);

 private:
  struct Free {
    void operator()(SwsContext* context) const;
  };

  void prepare(const AVFrame& frame, FrameSize size);

  std::unique_ptr<SwsContext, Free> context_;
  std::vector<int> prepared_for_;
  std::vector<std::byte> scratch_;
};

}  // namespace energon
