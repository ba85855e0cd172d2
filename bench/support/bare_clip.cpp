#include "bench/support/bare_clip.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "io/error.h"

namespace energon::bench {
namespace {

// libswscale writes whole vectors: rows of a plane start at multiples of this.
constexpr int kAlignment = 64;

/// The frames of a file from a given time on.
class Frames {
 public:
  explicit Frames(ByteView file)
      : input_(file),
        video_(input_.video()),
        packet_(ffmpeg_owned(av_packet_alloc(), "a packet")),
        frame_(ffmpeg_owned(av_frame_alloc(), "a frame")) {
    const AVCodec* decoder = avcodec_find_decoder(video_->codecpar->codec_id);
    codec_ = ffmpeg_owned(avcodec_alloc_context3(decoder), "a decoder");
    ffmpeg_check(avcodec_parameters_to_context(codec_.get(), video_->codecpar), "set the decoder");
    codec_->thread_count = 1;
    ffmpeg_check(avcodec_open2(codec_.get(), decoder, nullptr), "open the decoder");
  }

  // The frame at exactly this time. Where frames are reordered, a seek may end after it.
  const AVFrame& first(std::int64_t time) {
    const std::int64_t second = av_rescale_q(1, {1, 1}, video_->time_base);
    for (std::int64_t target = time;; target -= second) {
      ffmpeg_check(av_seek_frame(input_.format(), video_->index, target, AVSEEK_FLAG_BACKWARD),
                   "seek");
      avcodec_flush_buffers(codec_.get());
      const AVFrame* frame = &next();
      while (frame->best_effort_timestamp < time) {
        frame = &next();
      }
      if (frame->best_effort_timestamp == time) {
        return *frame;
      }
    }
  }

  const AVFrame& next() {
    for (;;) {
      const int code = avcodec_receive_frame(codec_.get(), frame_.get());
      if (code != AVERROR(EAGAIN)) {
        ffmpeg_check(code, "decode a frame");
        return *frame_;
      }
      feed();
    }
  }

 private:
  void feed() {
    do {
      av_packet_unref(packet_.get());
      const int code = av_read_frame(input_.format(), packet_.get());
      if (code == AVERROR_EOF) {
        ffmpeg_check(avcodec_send_packet(codec_.get(), nullptr), "end the video");
        return;
      }
      ffmpeg_check(code, "read a packet");
    } while (packet_->stream_index != video_->index);
    ffmpeg_check(avcodec_send_packet(codec_.get(), packet_.get()), "decode a packet");
  }

  FfmpegInput input_;
  AVStream* const video_;
  FfmpegPtr<AVCodecContext> codec_;
  FfmpegPtr<AVPacket> packet_;
  FfmpegPtr<AVFrame> frame_;
};

}  // namespace

std::vector<std::int64_t> frame_times(ByteView file) {
  const FfmpegInput input(file);
  const AVStream* video = input.video();
  const FfmpegPtr<AVPacket> packet = ffmpeg_owned(av_packet_alloc(), "a packet");
  std::vector<std::int64_t> times;
  while (av_read_frame(input.format(), packet.get()) >= 0) {
    if (packet->stream_index == video->index && (packet->flags & AV_PKT_FLAG_DISCARD) == 0) {
      times.push_back(packet->pts);
    }
    av_packet_unref(packet.get());
  }
  std::ranges::sort(times);
  return times;
}

BareClip::BareClip(int frames, std::optional<FrameSize> size, ClipPixels pixels)
    : frames_(frames), size_(size), pixels_(pixels) {}

void BareClip::run(ByteView file, std::int64_t first_time, std::span<std::byte> to) {
  Frames frames(file);
  const std::size_t frame_bytes = to.size() / static_cast<std::size_t>(frames_);
  convert(frames.first(first_time), to.first(frame_bytes));
  for (std::size_t i = 1; i < static_cast<std::size_t>(frames_); ++i) {
    convert(frames.next(), to.subspan(i * frame_bytes, frame_bytes));
  }
}

void BareClip::prepare(const AVFrame& frame, FrameSize size) {
  if (scaler_ != nullptr && prepared_for_ == FrameSize{frame.width, frame.height}) {
    return;
  }
  const AVPixelFormat to = pixels_ == ClipPixels::kPacked ? AV_PIX_FMT_RGB24 : AV_PIX_FMT_GBRP;
  const int exactness = pixels_ == ClipPixels::kExact ? SWS_ACCURATE_RND | SWS_BITEXACT : 0;
  scaler_ =
      ffmpeg_owned(sws_getContext(frame.width, frame.height,
                                  static_cast<AVPixelFormat>(frame.format), size.width, size.height,
                                  to, SWS_BILINEAR | exactness, nullptr, nullptr, nullptr),
                   "a converter");
  const int matrix = frame.colorspace == AVCOL_SPC_BT709 ? SWS_CS_ITU709 : SWS_CS_ITU601;
  const int is_full = frame.color_range == AVCOL_RANGE_JPEG ? 1 : 0;
  sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(matrix), is_full,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  prepared_for_ = {frame.width, frame.height};
}

void BareClip::convert(const AVFrame& frame, std::span<std::byte> to) {
  const FrameSize size = size_.value_or(FrameSize{frame.width, frame.height});
  prepare(frame, size);
  const bool is_planar = pixels_ != ClipPixels::kPacked;
  const int row = is_planar ? size.width : size.width * 3;
  const int stride = (row + kAlignment - 1) / kAlignment * kAlignment;
  const int rows = is_planar ? size.height * 3 : size.height;
  const bool is_direct = stride == row;
  const auto bytes = static_cast<std::size_t>(stride) * static_cast<std::size_t>(rows);
  if (!is_direct && planes_.size() < bytes + kAlignment) {
    planes_.resize(bytes + kAlignment);
  }
  std::byte* planes = planes_.data();
  planes += (kAlignment - reinterpret_cast<std::uintptr_t>(planes) % kAlignment) % kAlignment;
  auto* begin = reinterpret_cast<std::uint8_t*>(is_direct ? to.data() : planes);
  const std::ptrdiff_t plane = std::ptrdiff_t{stride} * size.height;
  std::array<std::uint8_t*, 4> data = {begin, nullptr, nullptr, nullptr};
  if (is_planar) {
    data = {begin + plane, begin + 2 * plane, begin, nullptr};  // G, B, R
  }
  const std::array<int, 4> strides = {stride, stride, stride, 0};
  ffmpeg_check(sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, data.data(),
                         strides.data()),
               "convert a frame");
  for (std::size_t i = 0; !is_direct && i < static_cast<std::size_t>(rows); ++i) {
    std::memcpy(to.data() + i * static_cast<std::size_t>(row),
                begin + i * static_cast<std::size_t>(stride), static_cast<std::size_t>(row));
  }
}

}  // namespace energon::bench
