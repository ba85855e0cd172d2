// A decoder of libavcodec that is fed with stored packets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "media/av/av_input.h"

namespace energon {

/// What AvCodec::next() found.
enum class AvCodecResult : std::uint8_t {
  kFrame,
  kDamage,  ///< a packet could not be decoded: damage() says why; decoding may go on
  kEnd,     ///< all packets were decoded
};

struct AvCodecOptions {
  DecodeLimits limits = {};
  /// Frames that may have to wait for frames before them, where the packets tell.
  int reorder_frames = 0;
  /// FFmpeg's AV_EF_* flags: what a decoder treats as damage.
  int error_recognition = 0;
};

/// Decodes from one packet on. A new codec for every restart: what it gives depends on packets
/// alone. Uses the calling thread only. Not thread-safe.
class AvCodec {
 public:
  /// Throws Error: kUnsupported without a decoder for the stream; kResourceExhausted above
  /// limits.max_pixels; kCorruptData for parameters that the decoder refuses. `packets` must
  /// outlive the codec.
  AvCodec(const AVCodecParameters& parameters, const AvStreamPackets& packets,
          std::size_t first_packet, const AvCodecOptions& options);
  ~AvCodec();
  AvCodec(const AvCodec&) = delete;
  AvCodec& operator=(const AvCodec&) = delete;

  /// Decodes up to the next frame, in the order of presentation. Throws Error: kResourceExhausted
  /// and kUnsupported.
  AvCodecResult next();

  /// The frame; valid until next(). Its `pts` is the index of its packet.
  const AVFrame& frame() const { return *frame_; }
  /// After kDamage: the packet of the frame that was concealed, or else the one that was fed last.
  std::size_t damaged_packet() const { return damaged_packet_; }
  const Error& damage() const { return *damage_; }
  std::size_t next_packet() const { return next_packet_; }

 private:
  int feed();
  int keep_first_samples();
  bool is_frame_damaged() const;

  const AvStreamPackets& packets_;
  AvPtr<AVCodecContext> context_;
  AvPtr<AVFrame> frame_;
  AvPtr<AVPacket> packet_;
  const std::size_t first_packet_;
  std::size_t next_packet_;
  bool fed_end_ = false;
  std::size_t damaged_packet_ = 0;
  std::optional<Error> damage_;
};

}  // namespace energon
