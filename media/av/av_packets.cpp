#include "media/av/av_packets.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace energon {
namespace {

// Bytes between the position that a demuxer tells and the packet's data: headers of blocks and
// tags.
constexpr std::uint64_t kMostHeaderBytes = 64;

// The packet's data in the file; empty if it is not there in one piece.
ByteView find_in_file(const AVPacket& packet, ByteView file) {
  const ByteView data =
      std::as_bytes(std::span(packet.data, static_cast<std::size_t>(packet.size)));
  if (packet.pos < 0 || static_cast<std::uint64_t>(packet.pos) >= file.size()) {
    return {};
  }
  const auto begin = static_cast<std::uint64_t>(packet.pos);
  for (std::uint64_t at = begin; at <= begin + kMostHeaderBytes; ++at) {
    if (at >= file.size() || data.size() > file.size() - at) {
      return {};
    }
    if (std::memcmp(file.data() + at, data.data(), data.size()) == 0) {
      return file.subspan(at, data.size());
    }
  }
  return {};
}

AvStoredPacket stored(AVPacket& packet, ByteView file) {
  AvStoredPacket result;
  result.pts = packet.pts;
  result.dts = packet.dts;
  result.duration = packet.duration;
  result.flags = packet.flags;
  if (packet.side_data_elems == 0) {
    result.data = find_in_file(packet, file);
  }
  if (result.data.empty()) {
    result.packet = owned(av_packet_alloc());
    av_packet_move_ref(result.packet.get(), &packet);
    result.data = std::as_bytes(
        std::span(result.packet->data, static_cast<std::size_t>(result.packet->size)));
  }
  return result;
}

// AVI and MP3 say in their header how long a stream is. (FLAC, too: AudioReader counts samples.)
void check_length(const AvInput& input, const AVStream* stream, const AvStreamPackets& packets) {
  const bool is_avi = input.container() == AvContainer::kRiff && stream != nullptr &&
                      stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
  const bool is_mp3 = input.container() == AvContainer::kOther && stream != nullptr &&
                      stream->codecpar->codec_id == AV_CODEC_ID_MP3;
  const bool is_told = input.format().duration_estimation_method == AVFMT_DURATION_FROM_STREAM;
  if ((!is_avi && !is_mp3) || !is_told || stream->duration <= 0) {
    return;
  }
  std::int64_t duration = 0;
  for (const AvStoredPacket& packet : packets.packets) {
    // Slots of AVI may be empty: the last frame is shown on.
    duration = is_avi && packet.dts != AV_NOPTS_VALUE ? packet.dts + 1 : duration + packet.duration;
  }
  if (duration < stream->duration) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("a stream ends at second {:.3f}, its header says {:.3f}: the file is "
                            "truncated or damaged",
                            av_seconds(duration, stream->time_base),
                            av_seconds(stream->duration, stream->time_base)));
  }
}

// Matroska stores the delay of the encoder in the header of the track (CodecDelay). Older versions
// of FFmpeg move the times of packets by it, but leave it to players to drop the samples. Here the
// first packet says it, as it does in newer versions and in other containers. The decoder of Opus
// drops them itself.
void add_codec_delay(const AvInput& input, AVPacket& packet) {
  constexpr std::size_t kSkipBytes = 10;
  const AVCodecParameters& parameters = *input.audio()->codecpar;
  if (input.container() != AvContainer::kMatroska || parameters.codec_id == AV_CODEC_ID_OPUS ||
      parameters.initial_padding <= 0 || av_skipped_samples(packet) > 0) {
    return;
  }
  std::size_t size = 0;
  std::uint8_t* skip = av_packet_get_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
  if (skip == nullptr || size < kSkipBytes) {
    skip = av_packet_new_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, kSkipBytes);
    if (skip == nullptr) {
      throw Error(ErrorCode::kResourceExhausted, "FFmpeg has no memory");
    }
    std::fill_n(skip, kSkipBytes, std::uint8_t{0});
  }
  for (unsigned i = 0; i < 4; ++i) {  // little endian, samples to drop at the start
    skip[i] = static_cast<std::uint8_t>(static_cast<unsigned>(parameters.initial_padding) >> 8 * i);
  }
}

}  // namespace

AvPackets read_av_packets(AvInput& input) {
  const std::uint64_t limit = 4 * std::uint64_t{input.file().size()} + (std::uint64_t{1} << 20);
  AvPackets result;
  std::uint64_t total = 0;
  const AvPtr<AVPacket> packet = owned(av_packet_alloc());
  while (input.read(*packet)) {
    total += static_cast<std::uint64_t>(packet->size);
    if (total > limit) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the packets have more than {} bytes, the file has {}: they overlap "
                              "or expand beyond reason",
                              limit, input.file().size()));
    }
    const bool is_video = input.video() != nullptr && packet->stream_index == input.video()->index;
    AvStreamPackets& stream = is_video ? result.video : result.audio;
    if (!is_video && stream.packets.empty()) {
      add_codec_delay(input, *packet);
    }
    stream.packets.push_back(stored(*packet, input.file()));
    av_packet_unref(packet.get());
  }
  check_length(input, input.video(), result.video);
  check_length(input, input.audio(), result.audio);
  return result;
}

}  // namespace energon
