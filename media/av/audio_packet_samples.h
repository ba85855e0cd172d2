// How many samples the packets of a codec stand for, where the packets tell without decoding.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "media/av/av_packets.h"

namespace energon {

/// For each packet the samples that it gives or, at the start, would give if the one before it were
/// there. Empty if the packets do not tell.
std::vector<std::int64_t> audio_packet_samples(const AVStream& stream,
                                               const AvStreamPackets& packets);

/// True for PCM, whose packets are samples.
constexpr bool is_pcm(AVCodecID codec) {
  return codec >= AV_CODEC_ID_FIRST_AUDIO && codec < AV_CODEC_ID_ADPCM_IMA_QT;
}

}  // namespace energon
