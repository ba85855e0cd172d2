#include "media/av/video_order.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace energon {
namespace {

// An MPEG-4 packet that is not larger may say "show the last frame again".
constexpr std::size_t kEmptyMpeg4Bytes = 16;

bool has_reordering(AVCodecID codec) {
  const AVCodecDescriptor* descriptor = avcodec_descriptor_get(codec);
  return descriptor == nullptr || (descriptor->props & AV_CODEC_PROP_REORDER) != 0;
}

bool has_fields(const AVCodecParameters& parameters) {
  return parameters.field_order != AV_FIELD_UNKNOWN &&
         parameters.field_order != AV_FIELD_PROGRESSIVE;
}

// VP8 and VP9 frames that only others refer to. The bit is that of RFC 6386, 9.1. VP9 packs such
// frames together with a visible one.
bool is_invisible(AVCodecID codec, const AvStoredPacket& packet) {
  return codec == AV_CODEC_ID_VP8 && !packet.data.empty() &&
         (std::to_integer<unsigned>(packet.data[0]) & 0x10U) == 0;
}

// True if a parser finds a picture that is shown before one that is decoded earlier.
bool has_b_frames(const AVCodecParameters& parameters, const AvStreamPackets& packets) {
  const AvLogScope silent;
  const AvPtr<AVCodecParserContext> parser(av_parser_init(parameters.codec_id));
  const AvPtr<AVCodecContext> codec = owned(avcodec_alloc_context3(nullptr));
  if (!parser || avcodec_parameters_to_context(codec.get(), &parameters) < 0) {
    return true;
  }
  parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
  std::vector<std::uint8_t> padded;
  for (const AvStoredPacket& packet : packets.packets) {
    const auto* data = reinterpret_cast<const std::uint8_t*>(packet.data.data());
    padded.assign(data, data + packet.data.size());
    padded.resize(padded.size() + AV_INPUT_BUFFER_PADDING_SIZE);
    std::uint8_t* out = nullptr;
    int out_size = 0;
    av_parser_parse2(parser.get(), codec.get(), &out, &out_size, padded.data(),
                     static_cast<int>(packet.data.size()), AV_NOPTS_VALUE, AV_NOPTS_VALUE, -1);
    if (parser->pict_type == AV_PICTURE_TYPE_B) {
      return true;
    }
  }
  return false;
}

// The packets that show a frame, in the order of decoding.
std::vector<std::size_t> shown_packets(AVCodecID codec, const AvStreamPackets& packets) {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    if (!packets[i].is_hidden() && !is_invisible(codec, packets[i])) {
      shown.push_back(i);
    }
  }
  return shown;
}

bool are_times_told(const AvStreamPackets& packets, const std::vector<std::size_t>& by_time) {
  return std::ranges::all_of(by_time,
                             [&](std::size_t i) { return packets[i].pts != AV_NOPTS_VALUE; }) &&
         std::ranges::adjacent_find(by_time, [&](std::size_t a, std::size_t b) {
           return packets[a].pts == packets[b].pts;
         }) == by_time.end();
}

// True if every shown packet is one frame and `by_time` is their order of presentation.
bool is_order_told(const AvInput& input, const AvStreamPackets& packets,
                   const std::vector<std::size_t>& by_time) {
  const AVCodecParameters& parameters = *input.video()->codecpar;
  if (by_time.empty() || !packets[0].is_key() || has_fields(parameters)) {
    return false;
  }
  // Frames that are shown before the first key frame are missing their references.
  const bool has_leading = !packets[0].is_hidden() && by_time.front() != 0;
  const bool has_empty =
      parameters.codec_id == AV_CODEC_ID_MPEG4 && std::ranges::any_of(by_time, [&](std::size_t i) {
        return packets[i].data.size() <= kEmptyMpeg4Bytes;
      });
  if (has_leading || has_empty) {
    return false;
  }
  if (!has_reordering(parameters.codec_id)) {
    return true;
  }
  const bool is_avi = input.container() == AvContainer::kRiff;  // stores no times of presentation
  return are_times_told(packets, by_time) && (!is_avi || !has_b_frames(parameters, packets));
}

std::vector<std::size_t> sorted_by_time(AVCodecID codec, const AvStreamPackets& packets) {
  std::vector<std::size_t> by_time = shown_packets(codec, packets);
  if (has_reordering(codec)) {
    std::ranges::stable_sort(
        by_time, [&](std::size_t a, std::size_t b) { return packets[a].pts < packets[b].pts; });
  }
  return by_time;
}

// The order in which a decoder gives the frames.
std::vector<std::size_t> decoded_order(const AvInput& input, const AvStreamPackets& packets,
                                       const DecodeLimits& limits) {
  std::vector<std::size_t> order;
  std::vector<bool> seen(packets.size());
  AvCodec codec(*input.video()->codecpar, packets, 0, video_codec_options(limits, 0));
  for (;;) {
    const AvCodecResult result = codec.next();
    if (result == AvCodecResult::kEnd) {
      return order;
    }
    const std::int64_t packet = codec.frame().pts;
    const bool is_known = result == AvCodecResult::kFrame && packet >= 0 &&
                          static_cast<std::size_t>(packet) < packets.size();
    if (!is_known || seen[static_cast<std::size_t>(packet)]) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("frame {} of the video is damaged: {}", order.size(),
                              result == AvCodecResult::kDamage ? codec.damage().message()
                                                               : "its packet gives two frames"));
    }
    seen[static_cast<std::size_t>(packet)] = true;
    order.push_back(static_cast<std::size_t>(packet));
  }
}

// An MPEG-4 packet that is a picture must show one. Before the second frame there may be pictures
// that refer to what is in front of the file.
void check_mpeg4_order(const AvStreamPackets& packets, const std::vector<std::size_t>& order) {
  std::vector<bool> has_frame(packets.size());
  for (const std::size_t i : order) {
    has_frame[i] = true;
  }
  for (std::size_t i = order.size() < 2 ? packets.size() : order[1]; i < packets.size(); ++i) {
    if (!has_frame[i] && !packets[i].is_hidden() && packets[i].data.size() > kEmptyMpeg4Bytes) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the video is damaged: packet {} of {}, of {} bytes, gives no frame",
                              i, packets.size(), packets[i].data.size()));
    }
  }
}

// Frames that are decoded before a frame and shown after it, at most.
int most_reordered(const std::vector<std::int64_t>& frame_of_packet) {
  constexpr std::size_t kWindow = 32;  // more than any standard's buffer
  std::int64_t most = 0;
  for (std::size_t i = 0; i < frame_of_packet.size(); ++i) {
    if (frame_of_packet[i] != VideoOrder::kNoFrame) {
      const auto begin =
          frame_of_packet.begin() + static_cast<std::ptrdiff_t>(i - std::min(i, kWindow));
      const auto end = frame_of_packet.begin() + static_cast<std::ptrdiff_t>(i);
      most = std::max<std::int64_t>(
          most, std::count_if(begin, end, [&](std::int64_t f) { return f > frame_of_packet[i]; }));
    }
  }
  return static_cast<int>(std::min<std::int64_t>(most, 16));
}

// The n-th frame is shown at the n-th time.
void set_times(const AvInput& input, const AvStreamPackets& packets, VideoOrder& order) {
  const AVStream& stream = *input.video();
  const double rate = av_frame_rate(stream);
  std::vector<std::int64_t> times;
  for (const std::size_t i : order.packet_of_frame) {
    const std::int64_t time = packets[i].pts != AV_NOPTS_VALUE ? packets[i].pts : packets[i].dts;
    if (time != AV_NOPTS_VALUE) {
      times.push_back(time);
    }
  }
  const AvStoredPacket& last = packets[order.packet_of_frame.back()];
  const double last_seconds = last.duration > 0 ? av_seconds(last.duration, stream.time_base)
                              : rate > 0        ? 1 / rate
                                                : 0;
  if (times.size() == order.packet_of_frame.size()) {
    std::ranges::sort(times);
    for (const std::int64_t time : times) {
      order.times_seconds.push_back(av_seconds(time, stream.time_base) - input.zero_seconds());
    }
  } else {
    const double step = rate > 0 ? 1 / rate : last_seconds;
    for (std::size_t i = 0; i < order.packet_of_frame.size(); ++i) {
      order.times_seconds.push_back(static_cast<double>(i) * step);
    }
  }
  order.end_seconds = order.times_seconds.back() + last_seconds;
}

}  // namespace

double av_frame_rate(const AVStream& video) {
  for (const AVRational rate : {video.avg_frame_rate, video.r_frame_rate}) {
    if (rate.num > 0 && rate.den > 0) {
      return av_q2d(rate);
    }
  }
  return 0;
}

AvCodecOptions video_codec_options(const DecodeLimits& limits, int reorder_frames) {
  return {.limits = limits,
          .reorder_frames = reorder_frames,
          .error_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER};
}

VideoOrder video_order(const AvInput& input, const AvStreamPackets& packets,
                       const DecodeLimits& limits) {
  const AVCodecID codec = input.video()->codecpar->codec_id;
  VideoOrder order;
  order.packet_of_frame = sorted_by_time(codec, packets);
  const bool is_told = is_order_told(input, packets, order.packet_of_frame);
  if (!is_told) {
    order.packet_of_frame = decoded_order(input, packets, limits);
    if (codec == AV_CODEC_ID_MPEG4) {
      check_mpeg4_order(packets, order.packet_of_frame);
    }
  }
  if (order.packet_of_frame.empty()) {
    throw Error(ErrorCode::kCorruptData, "the video has no frame");
  }
  order.frame_of_packet.assign(packets.size(), VideoOrder::kNoFrame);
  for (std::size_t frame = 0; frame < order.packet_of_frame.size(); ++frame) {
    order.frame_of_packet[order.packet_of_frame[frame]] = static_cast<std::int64_t>(frame);
  }
  for (std::size_t i = 0; i < packets.size(); ++i) {
    if (packets[i].is_key()) {
      order.key_packets.push_back(i);
    }
  }
  order.reorder_frames = is_told ? most_reordered(order.frame_of_packet) : 0;
  set_times(input, packets, order);
  return order;
}

}  // namespace energon
