// Sample numbers of packets, where a decoder can begin at a packet and give the same samples as one
// that began at the start.

#pragma once

#include <cstdint>
#include <vector>

#include "media/av/audio_access.h"
#include "media/av/av_packets.h"

namespace energon {

/// Where decoding may begin.
struct AudioPositions {
  /// By packet: the number of its first sample, priming not counted, hence negative in it. Empty if
  /// decoding must begin at the start.
  std::vector<std::int64_t> first_samples;
  /// Packets to decode before the one that has the sample.
  std::size_t preroll_packets = 0;
  /// The positions are right up to a constant, which decoding the first packets shows.
  bool must_be_checked = false;
  /// Restart for each clip, so that clips do not depend on those before.
  bool always_restarts = false;
};

/// Samples at the start that are decoded and not played.
std::int64_t audio_priming(const AvInput& input, const AvStreamPackets& packets);

AudioPositions audio_positions(const AvInput& input, const AvStreamPackets& packets,
                               AudioAccess access);

}  // namespace energon
