// All packets of the video and the sound of a file, in memory, in the order of decoding.
//
// With them every seek is exact in every container: decoding restarts at any packet. A packet is a
// view into the file where the container stores it in one piece; others are copies, so that little
// memory is used besides the file.

#pragma once

#include <cstdint>
#include <vector>

#include "media/av/av_input.h"

namespace energon {

/// Encoded data of one or more frames.
struct AvStoredPacket {
  ByteView data;
  std::int64_t pts = AV_NOPTS_VALUE;  ///< in units of the stream's time base
  std::int64_t dts = AV_NOPTS_VALUE;
  std::int64_t duration = 0;
  int flags = 0;           ///< AV_PKT_FLAG_KEY, AV_PKT_FLAG_DISCARD
  AvPtr<AVPacket> packet;  ///< where it has side data or is not in one piece in the file, else null

  bool is_key() const { return (flags & AV_PKT_FLAG_KEY) != 0; }
  /// Decoded, but not shown: outside of the edit list.
  bool is_hidden() const { return (flags & AV_PKT_FLAG_DISCARD) != 0; }
};

/// The packets of one stream.
struct AvStreamPackets {
  std::vector<AvStoredPacket> packets;

  std::size_t size() const { return packets.size(); }
  const AvStoredPacket& operator[](std::size_t index) const { return packets[index]; }
};

struct AvPackets {
  AvStreamPackets video;
  AvStreamPackets audio;
};

/// Reads `input` to its end. Views refer to its file. Throws Error (kCorruptData) where the
/// container is damaged, ends before it should, or its packets add up to much more than the file.
AvPackets read_av_packets(AvInput& input);

}  // namespace energon
