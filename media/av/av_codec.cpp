#include "media/av/av_codec.h"

#include <algorithm>

#include <fmt/format.h>

namespace energon {
namespace {

// Checks the size in the header; 0 x 0 means unknown until decoding.
void check_declared_pixels(const AVCodecParameters& parameters, const DecodeLimits& limits) {
  if (parameters.codec_type == AVMEDIA_TYPE_VIDEO && parameters.width > 0 &&
      parameters.height > 0) {
    check_pixels("a frame of the video", static_cast<std::uint64_t>(parameters.width),
                 static_cast<std::uint64_t>(parameters.height), limits);
  }
}

}  // namespace

AvCodec::AvCodec(const AVCodecParameters& parameters, const AvStreamPackets& packets,
                 std::size_t first_packet, const AvCodecOptions& options)
    : packets_(packets),
      frame_(owned(av_frame_alloc())),
      packet_(owned(av_packet_alloc())),
      first_packet_(first_packet),
      next_packet_(first_packet) {
  check_declared_pixels(parameters, options.limits);
  AvLogScope log;
  const char* name = avcodec_get_name(parameters.codec_id);
  const AVCodec* codec = avcodec_find_decoder(parameters.codec_id);
  if (codec == nullptr) {
    throw Error(ErrorCode::kUnsupported, fmt::format("this FFmpeg has no decoder for {}", name));
  }
  context_ = owned(avcodec_alloc_context3(codec));
  int code = avcodec_parameters_to_context(context_.get(), &parameters);
  if (code >= 0) {
    context_->thread_count = 1;
    context_->max_pixels =
        static_cast<std::int64_t>(std::min<std::uint64_t>(options.limits.max_pixels, INT32_MAX));
    context_->has_b_frames = std::max(context_->has_b_frames, options.reorder_frames);
    context_->err_recognition = options.error_recognition;
    code = avcodec_open2(context_.get(), codec, nullptr);
  }
  if (code < 0) {
    throw av_error(fmt::format("the decoder of {} cannot be opened", name), code, log);
  }
}

AvCodec::~AvCodec() {
  const AvLogScope silent;
  context_.reset();
}

AvCodecResult AvCodec::next() {
  AvLogScope log;
  for (;;) {
    int code = avcodec_receive_frame(context_.get(), frame_.get());
    if (code >= 0 && !is_frame_damaged()) {
      return AvCodecResult::kFrame;
    }
    if (code == AVERROR(EAGAIN)) {
      code = feed();
      if (code >= 0) {
        continue;
      }
    }
    if (code == AVERROR_EOF) {
      return AvCodecResult::kEnd;
    }
    const Error error =
        av_error("it cannot be decoded", code < 0 ? code : AVERROR_INVALIDDATA, log);
    if (error.code() != ErrorCode::kCorruptData) {
      throw error;
    }
    damage_ = error;
    const bool has_packet = code >= 0 && frame_->pts >= 0;
    damaged_packet_ = has_packet         ? static_cast<std::size_t>(frame_->pts)
                      : next_packet_ > 0 ? next_packet_ - 1
                                         : 0;
    return AvCodecResult::kDamage;
  }
}

// Sends the next packet, or the end. The codec accepts it, because all frames were received.
int AvCodec::feed() {
  if (next_packet_ >= packets_.size()) {
    if (fed_end_) {
      return AVERROR_EOF;  // asks for data after the end: treat it as finished
    }
    fed_end_ = true;
    return avcodec_send_packet(context_.get(), nullptr);
  }
  const AvStoredPacket& stored = packets_[next_packet_];
  av_packet_unref(packet_.get());
  if (stored.packet) {
    const int code = av_packet_ref(packet_.get(), stored.packet.get());
    if (code < 0) {
      return code;
    }
  } else {
    // Borrowed: libavcodec copies a packet without a buffer, with the padding that it needs.
    packet_->data =
        const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(stored.data.data()));
    packet_->size = static_cast<int>(stored.data.size());
  }
  packet_->flags = stored.flags;
  packet_->pts = static_cast<std::int64_t>(next_packet_);
  packet_->dts = AV_NOPTS_VALUE;
  packet_->duration = 0;
  const int code = next_packet_ == first_packet_ ? keep_first_samples() : 0;
  ++next_packet_;
  return code < 0 ? code : avcodec_send_packet(context_.get(), packet_.get());
}

// Decoders such as that of Opus drop the priming themselves, even when they begin after it.
int AvCodec::keep_first_samples() {
  constexpr std::size_t kSkipBytes = 10;
  if (first_packet_ == 0 || context_->codec_type != AVMEDIA_TYPE_AUDIO ||
      av_packet_get_side_data(packet_.get(), AV_PKT_DATA_SKIP_SAMPLES, nullptr) != nullptr) {
    return 0;
  }
  std::uint8_t* skip = av_packet_new_side_data(packet_.get(), AV_PKT_DATA_SKIP_SAMPLES, kSkipBytes);
  if (skip == nullptr) {
    return AVERROR(ENOMEM);
  }
  std::fill_n(skip, kSkipBytes, std::uint8_t{0});
  return 0;
}

// Decoders conceal damage and flag the frame.
bool AvCodec::is_frame_damaged() const {
  return frame_->decode_error_flags != 0 || (frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0;
}

}  // namespace energon
