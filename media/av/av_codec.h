// A libavcodec decoder that reads from stored packets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "media/av/av_input.h"

namespace energon {

/// Result of AvCodec::next().
enum class AvCodecResult : std::uint8_t {
  kFrame,
  kDamage,  ///< a packet could not be decoded; see damage(). Decoding may continue.
  kEnd,     ///< all packets were decoded
};

struct AvCodecOptions {
  DecodeLimits limits = {};
  /// Frames that may have to wait for earlier ones, if known from the packets.
  int reorder_frames = 0;
  /// FFmpeg's AV_EF_* flags: what a decoder reports as damage.
  int error_recognition = 0;
};

/// Decodes from one packet on. Every restart needs a new codec, so that frames depend on packets
/// alone. Uses only the calling thread. Not thread-safe.
class AvCodec {
 public:
  /// `packets` must outlive the codec. Throws Error: kUnsupported if there is no decoder for the
  /// stream; kResourceExhausted above limits.max_pixels; kCorruptData for parameters that the
  /// decoder refuses.
  AvCodec(const AVCodecParameters& parameters, const AvStreamPackets& packets,
          std::size_t first_packet, const AvCodecOptions& options);
  ~AvCodec();
  AvCodec(const AvCodec&) = delete;
  AvCodec& operator=(const AvCodec&) = delete;

  /// Decodes the next frame, in presentation order. Throws Error (kResourceExhausted,
  /// kUnsupported).
  AvCodecResult next();

  /// The frame, valid until next(). Its `pts` is the index of its packet.
  const AVFrame& frame() const { return *frame_; }
  /// After kDamage: the packet of the concealed frame, or else the last packet sent.
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
