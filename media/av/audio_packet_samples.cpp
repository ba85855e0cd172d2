#include "media/av/audio_packet_samples.h"

#include <algorithm>
#include <array>
#include <memory>

extern "C" {
#include <libavcodec/vorbis_parser.h>
}

namespace energon {
namespace {

struct FreeVorbis {
  void operator()(AVVorbisParseContext* parser) const { av_vorbis_parse_free(&parser); }
};

// From the mode in the first byte of each packet and the setup header.
std::vector<std::int64_t> vorbis_samples(const AVCodecParameters& parameters,
                                         const AvStreamPackets& packets) {
  const AvLogScope silent;
  const std::unique_ptr<AVVorbisParseContext, FreeVorbis> parser(
      av_vorbis_parse_init(parameters.extradata, parameters.extradata_size));
  std::vector<std::int64_t> samples;
  for (std::size_t i = 0; parser && i < packets.size(); ++i) {
    const ByteView data = packets[i].data;
    samples.push_back(av_vorbis_parse_frame(parser.get(),
                                            reinterpret_cast<const std::uint8_t*>(data.data()),
                                            static_cast<int>(data.size())));
  }
  return samples;
}

// RFC 6716, 3.1: the first byte tells mode, duration and number of frames. At 48 kHz.
std::int64_t opus_samples(ByteView data) {
  constexpr std::array<std::int64_t, 4> kSilk = {480, 960, 1920, 2880};
  constexpr std::array<std::int64_t, 4> kCelt = {120, 240, 480, 960};
  const auto first = data.empty() ? 0U : std::to_integer<unsigned>(data[0]);
  const unsigned mode = first >> 3;
  const std::int64_t frame = mode < 12   ? kSilk[mode % 4]
                             : mode < 16 ? kSilk[mode % 2]
                                         : kCelt[mode % 4];
  switch (first & 3U) {
    case 0:
      return frame;
    case 3:
      return data.size() < 2 ? 0 : frame * (std::to_integer<unsigned>(data[1]) & 0x3FU);
    default:
      return 2 * frame;
  }
}

// True if times are sample numbers, without a gap.
bool are_times_samples(const AVStream& stream, const AvStreamPackets& packets) {
  if (stream.time_base.num != 1 || stream.time_base.den != stream.codecpar->sample_rate) {
    return false;
  }
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const AvStoredPacket& packet = packets[i];
    const bool is_told =
        packet.pts != AV_NOPTS_VALUE && packet.duration > 0 && packet.duration < INT32_MAX;
    std::int64_t end = 0;  // of the packet before
    const bool follows =
        i == 0 || (!__builtin_add_overflow(packets[i - 1].pts, packets[i - 1].duration, &end) &&
                   end == packet.pts);
    if (!is_told || !follows) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> audio_packet_samples(const AVStream& stream,
                                               const AvStreamPackets& packets) {
  AVCodecParameters& parameters = *stream.codecpar;
  const AVCodecID codec = parameters.codec_id;
  std::vector<std::int64_t> samples;
  if (codec == AV_CODEC_ID_VORBIS) {
    samples = vorbis_samples(parameters, packets);
  } else {
    const bool by_frames = is_pcm(codec) || codec == AV_CODEC_ID_MP2 || codec == AV_CODEC_ID_MP3;
    const bool by_time = !by_frames && are_times_samples(stream, packets);
    for (const AvStoredPacket& packet : packets.packets) {
      const int size = static_cast<int>(packet.data.size());
      samples.push_back(by_frames ? av_get_audio_frame_duration2(&parameters, size)
                        : codec == AV_CODEC_ID_OPUS ? opus_samples(packet.data)
                        : by_time                   ? packet.duration
                        : codec == AV_CODEC_ID_AAC  ? parameters.frame_size
                                                    : 0);
    }
  }
  if (std::ranges::any_of(samples, [](std::int64_t count) { return count <= 0; })) {
    samples.clear();
  }
  return samples;
}

}  // namespace energon
