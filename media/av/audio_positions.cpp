#include "media/av/audio_positions.h"

#include <algorithm>
#include <optional>

#include "media/av/audio_packet_samples.h"

namespace energon {
namespace {

// Decoders that forget: nothing before these packets changes a sample.
std::optional<std::size_t> finite_preroll(AVCodecID codec) {
  if (is_pcm(codec)) {
    return 0;
  }
  switch (codec) {
    case AV_CODEC_ID_FLAC:
    case AV_CODEC_ID_ALAC:
      return 0;
    case AV_CODEC_ID_VORBIS:
      return 3;
    case AV_CODEC_ID_MP2:
    case AV_CODEC_ID_MP3:
      return 40;  // the bit reservoir reaches back 511 bytes, a frame has 24 or more
    default:
      return std::nullopt;
  }
}

// Opus converges in 80 ms, AAC (with its extensions) in a few packets of 20 ms and more.
constexpr std::size_t kFastPreroll = 12;

// Hidden packets only at the ends, dropped samples only at the start and the end: what is played is
// in one piece.
bool is_played_in_one_piece(const AvStreamPackets& packets) {
  bool was_played = false;
  bool has_ended = false;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const AvStoredPacket& packet = packets[i];
    const bool skips = packet.packet && av_skipped_samples(*packet.packet) > 0;
    if ((skips && was_played) || (has_ended && !packet.is_hidden())) {
      return false;
    }
    has_ended = was_played && packet.is_hidden();
    was_played = was_played || !packet.is_hidden();
  }
  return was_played;
}

}  // namespace

std::int64_t audio_priming(const AvInput& input, const AvStreamPackets& packets) {
  const bool has_told = packets.size() > 0 && packets[0].packet;
  const std::int64_t told = has_told ? av_skipped_samples(*packets[0].packet) : 0;
  const AVCodecParameters& parameters = *input.audio()->codecpar;
  // The decoder of Opus knows it from the header of the stream.
  return told == 0 && parameters.codec_id == AV_CODEC_ID_OPUS ? parameters.initial_padding : told;
}

AudioPositions audio_positions(const AvInput& input, const AvStreamPackets& packets,
                               AudioAccess access) {
  const AVStream& stream = *input.audio();
  const std::optional<std::size_t> preroll = finite_preroll(stream.codecpar->codec_id);
  AudioPositions result;
  if ((!preroll && access == AudioAccess::kExact) || !is_played_in_one_piece(packets)) {
    return result;
  }
  std::int64_t position = -audio_priming(input, packets);
  for (const std::int64_t samples : audio_packet_samples(stream, packets)) {
    result.first_samples.push_back(position);
    position += samples;
  }
  result.preroll_packets = preroll.value_or(kFastPreroll);
  result.must_be_checked = result.preroll_packets > 0;
  result.always_restarts = !preroll && !result.first_samples.empty();
  return result;
}

}  // namespace energon
