#include "media/av/video_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

extern "C" {
#include <libavutil/frame.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

namespace energon {

// --- The order of frames ---

namespace {

// An MPEG-4 packet of at most this size may mean "show the last frame again".
constexpr std::size_t kEmptyMpeg4Bytes = 16;

bool has_reordering(AVCodecID codec) {
  const AVCodecDescriptor* descriptor = avcodec_descriptor_get(codec);
  return descriptor == nullptr || (descriptor->props & AV_CODEC_PROP_REORDER) != 0;
}

bool has_fields(const AVCodecParameters& parameters) {
  return parameters.field_order != AV_FIELD_UNKNOWN &&
         parameters.field_order != AV_FIELD_PROGRESSIVE;
}

// VP8 frames that are only references, by the bit of RFC 6386, 9.1. VP9 packs such frames together
// with a visible one.
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

// The packets that show a frame, in decoding order.
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

// True if every shown packet is one frame and `by_time` is their presentation order.
bool is_order_known(const AvInput& input, const AvStreamPackets& packets,
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
  const bool is_avi = input.container() == AvContainer::kRiff;  // has no presentation times
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

/// Options that define which errors count as damage of a video.
AvCodecOptions video_codec_options(const DecodeLimits& limits, int reorder_frames) {
  return {.limits = limits,
          .reorder_frames = reorder_frames,
          .error_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER};
}

// The order in which a decoder returns the frames.
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
                                                               : "its packet has two frames"));
    }
    seen[static_cast<std::size_t>(packet)] = true;
    order.push_back(static_cast<std::size_t>(packet));
  }
}

// An MPEG-4 packet with a picture must show a frame. Pictures before the second frame may refer to
// frames before the start of the file.
void check_mpeg4_order(const AvStreamPackets& packets, const std::vector<std::size_t>& order) {
  std::vector<bool> has_frame(packets.size());
  for (const std::size_t i : order) {
    has_frame[i] = true;
  }
  for (std::size_t i = order.size() < 2 ? packets.size() : order[1]; i < packets.size(); ++i) {
    if (!has_frame[i] && !packets[i].is_hidden() && packets[i].data.size() > kEmptyMpeg4Bytes) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the video is damaged: packet {} of {}, of {} bytes, has no frame", i,
                              packets.size(), packets[i].data.size()));
    }
  }
}

// The maximum number of frames that are decoded before a frame and shown after it.
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

VideoOrder video_order(const AvInput& input, const AvStreamPackets& packets,
                       const DecodeLimits& limits) {
  const AVCodecID codec = input.video()->codecpar->codec_id;
  VideoOrder order;
  order.packet_of_frame = sorted_by_time(codec, packets);
  const bool is_known = is_order_known(input, packets, order.packet_of_frame);
  if (!is_known) {
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
  order.reorder_frames = is_known ? most_reordered(order.frame_of_packet) : 0;
  set_times(input, packets, order);
  return order;
}

// --- Decoding ---

const AVFrame& VideoReader::frame(std::int64_t number) {
  if (position_ == number) {
    return codec_->frame();
  }
  const std::size_t key = key_before(number);
  const bool goes_on = !must_restart_ && position_ < number && key < codec_->next_packet();
  if (goes_on && decode_to(number)) {
    return codec_->frame();
  }
  // If the frame cannot be decoded from its key packet, the packet was not a real key packet: begin
  // earlier, in doubling steps.
  const auto& keys = order_.key_packets;
  auto index = static_cast<std::size_t>(std::ranges::upper_bound(keys, key) - keys.begin());
  for (std::size_t step = 1;; step *= 2) {
    const std::size_t packet = index == 0 ? 0 : keys[index - 1];
    restart(packet);
    if (decode_to(number)) {
      return codec_->frame();
    }
    if (packet == 0) {
      throw_damaged(number);
    }
    index -= std::min(index, step);
  }
}

// The last key packet that is not after the frame, neither in decoding nor in presentation order.
std::size_t VideoReader::key_before(std::int64_t number) const {
  const auto& keys = order_.key_packets;
  const std::size_t packet = order_.packet_of_frame[static_cast<std::size_t>(number)];
  for (auto key = std::ranges::upper_bound(keys, packet); key != keys.begin();) {
    --key;
    if (order_.frame_of_packet[*key] <= number) {
      return *key;
    }
  }
  return 0;
}

void VideoReader::restart(std::size_t key) {
  position_ = -1;
  must_restart_ = true;
  codec_.reset();  // frees memory before the next codec is opened: codecs are large
  codec_ = std::make_unique<AvCodec>(*input_.video()->codecpar, packets_, key,
                                     video_codec_options(limits_, order_.reorder_frames));
  first_number_ = std::max<std::int64_t>(order_.frame_of_packet[key], 0);
  must_restart_ = false;
}

// False if the frame could not be decoded undamaged; decoding must then restart.
bool VideoReader::decode_to(std::int64_t number) {
  position_ = -1;
  must_restart_ = true;  // until the frame is decoded
  bool is_clean = true;
  for (;;) {
    const AvCodecResult result = codec_->next();
    if (result == AvCodecResult::kDamage) {
      const std::int64_t damaged = order_.frame_of_packet[codec_->damaged_packet()];
      if (is_damage_of(damaged, number)) {
        damage_ = codec_->damage().message();
        return false;
      }
      is_clean = is_clean && damaged <= number;
      continue;
    }
    const std::int64_t packet = result == AvCodecResult::kFrame ? codec_->frame().pts : -1;
    const bool is_known = packet >= 0 && static_cast<std::size_t>(packet) < packets_.size();
    const std::int64_t given =
        is_known ? order_.frame_of_packet[static_cast<std::size_t>(packet)] : VideoOrder::kNoFrame;
    if (given == number) {
      position_ = number;
      must_restart_ = !is_clean;
      return true;
    }
    if (given > number || result == AvCodecResult::kEnd) {
      damage_ = "the decoder returns no frame for its packet";
      return false;
    }
  }
}

// Damage of frames shown before the key frame, and of later frames, does not affect `number`.
bool VideoReader::is_damage_of(std::int64_t damaged, std::int64_t number) const {
  const bool is_leading = damaged != VideoOrder::kNoFrame && damaged < first_number_;
  return damaged <= number && !is_leading;
}

void VideoReader::throw_damaged(std::int64_t number) const {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("the video is damaged at second {:.3f} (frame {} of {}): {}",
                          order_.times_seconds[static_cast<std::size_t>(number)], number,
                          order_.frames(), damage_));
}

// --- Conversion to RGB ---

namespace {

// Rows begin at multiples of this, because libswscale writes whole vectors.
constexpr std::size_t kRowAlignment = 64;

int coefficients_of(AVColorSpace space) {
  switch (space) {
    case AVCOL_SPC_BT709:
      return SWS_CS_ITU709;
    case AVCOL_SPC_FCC:
      return SWS_CS_FCC;
    case AVCOL_SPC_SMPTE240M:
      return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
      return SWS_CS_BT2020;
    default:
      return SWS_CS_ITU601;
  }
}

[[noreturn]] void throw_no_conversion(const AVFrame& frame, const AvLogScope& log) {
  const char* name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(frame.format));
  throw Error(ErrorCode::kUnsupported,
              fmt::format("frames of {} x {} pixels {} cannot be converted to RGB{}{}", frame.width,
                          frame.height, name == nullptr ? "of an unknown format" : name,
                          log.last_error().empty() ? "" : ": ", log.last_error()));
}

}  // namespace

void FramePlanes::Free::operator()(SwsContext* context) const {
  const AvLogScope silent;
  sws_freeContext(context);
}

void FramePlanes::prepare(const AVFrame& frame, FrameSize size) {
  std::vector<int> wanted = {frame.width,       frame.height, frame.format, frame.colorspace,
                             frame.color_range, size.width,   size.height};
  if (context_ != nullptr && wanted == prepared_for_) {
    return;
  }
  const AvLogScope log;
  constexpr int kFlags = SWS_BILINEAR | SWS_ACCURATE_RND | SWS_BITEXACT;
  context_.reset(sws_getContext(frame.width, frame.height, static_cast<AVPixelFormat>(frame.format),
                                size.width, size.height, AV_PIX_FMT_GBRP, kFlags, nullptr, nullptr,
                                nullptr));
  if (context_ == nullptr) {
    throw_no_conversion(frame, log);
  }
  const auto format = static_cast<AVPixelFormat>(frame.format);
  const bool is_full = frame.color_range == AVCOL_RANGE_JPEG || format == AV_PIX_FMT_YUVJ420P ||
                       format == AV_PIX_FMT_YUVJ422P || format == AV_PIX_FMT_YUVJ444P ||
                       format == AV_PIX_FMT_YUVJ440P || format == AV_PIX_FMT_YUVJ411P;
  // Fails for formats without a matrix, such as RGB, which need none.
  sws_setColorspaceDetails(context_.get(), sws_getCoefficients(coefficients_of(frame.colorspace)),
                           is_full ? 1 : 0, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16,
                           1 << 16);
  prepared_for_ = std::move(wanted);
}

void FramePlanes::write(const AVFrame& frame, FrameSize size, const DecodeLimits& limits,
                        std::span<std::byte> to) {
  check_pixels("a frame of the video", static_cast<std::uint64_t>(frame.width),
               static_cast<std::uint64_t>(frame.height), limits);
  prepare(frame, size);
  const auto width = static_cast<std::size_t>(size.width);
  const auto height = static_cast<std::size_t>(size.height);
  const std::size_t row = (width + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  const bool is_direct =
      row == width && reinterpret_cast<std::uintptr_t>(to.data()) % kRowAlignment == 0;
  std::byte* planes = to.data();
  if (!is_direct) {
    scratch_.resize(3 * row * height + 2 * kRowAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(scratch_.data());
    planes = scratch_.data() + (kRowAlignment - address % kRowAlignment) % kRowAlignment;
  }
  const auto plane = [&](std::size_t index) {
    return reinterpret_cast<std::uint8_t*>(planes + index * row * height);
  };
  const int stride = static_cast<int>(row);
  const std::array<std::uint8_t*, 4> data = {plane(1), plane(2), plane(0), nullptr};  // G, B, R
  const std::array<int, 4> strides = {stride, stride, stride, 0};
  const AvLogScope log;
  const int rows = sws_scale(context_.get(), frame.data, frame.linesize, 0, frame.height,
                             data.data(), strides.data());
  if (rows != size.height) {
    throw_no_conversion(frame, log);
  }
  for (std::size_t i = 0; !is_direct && i < 3 * height; ++i) {
    std::memcpy(to.data() + i * width, planes + i * row, width);
  }
}

}  // namespace energon
