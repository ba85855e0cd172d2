#include "bench/support/encoded_video.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/support/ffmpeg_owners.h"

extern "C" {
#include <libavutil/opt.h>
}

namespace energon::bench {
namespace {

constexpr int kSilent = AV_LOG_ERROR;

/// Writes an MP4 into memory.
class Mp4Writer {
 public:
  explicit Mp4Writer(const VideoSpec& spec);
  ~Mp4Writer() { avformat_free_context(format_); }
  Mp4Writer(const Mp4Writer&) = delete;
  Mp4Writer& operator=(const Mp4Writer&) = delete;

  /// Null means no more frames.
  void write(const AVFrame* frame);
  std::string finish();

 private:
  void open_codec(const VideoSpec& spec);

  AVFormatContext* format_ = nullptr;
  AVStream* stream_ = nullptr;
  FfmpegPtr<AVCodecContext> codec_;
  FfmpegPtr<AVPacket> packet_;
};

Mp4Writer::Mp4Writer(const VideoSpec& spec) : packet_(ffmpeg_owned(av_packet_alloc(), "a packet")) {
  av_log_set_level(kSilent);
  ffmpeg_check(avformat_alloc_output_context2(&format_, nullptr, "mp4", nullptr), "make an MP4");
  open_codec(spec);
  stream_ = avformat_new_stream(format_, nullptr);
  if (stream_ == nullptr) {
    ffmpeg_failed("a stream");
  }
  stream_->time_base = codec_->time_base;
  ffmpeg_check(avcodec_parameters_from_context(stream_->codecpar, codec_.get()),
               "describe the video");
  ffmpeg_check(avio_open_dyn_buf(&format_->pb), "make a file in memory");
  ffmpeg_check(avformat_write_header(format_, nullptr), "write the header");
}

void Mp4Writer::open_codec(const VideoSpec& spec) {
  const AVCodec* encoder = avcodec_find_encoder_by_name(video_encoder().c_str());
  codec_ = ffmpeg_owned(avcodec_alloc_context3(encoder), "an encoder");
  codec_->width = spec.width;
  codec_->height = spec.height;
  codec_->pix_fmt = AV_PIX_FMT_YUV420P;
  codec_->time_base = {1, spec.frames_per_second};
  codec_->framerate = {spec.frames_per_second, 1};
  codec_->gop_size = spec.frames_per_key;
  codec_->thread_count = 1;
  codec_->bit_rate = 1'000'000;
  codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  av_opt_set(codec_->priv_data, "preset", "veryfast", 0);  // mpeg4 has none
  ffmpeg_check(avcodec_open2(codec_.get(), encoder, nullptr), "open the encoder");
}

void Mp4Writer::write(const AVFrame* frame) {
  ffmpeg_check(avcodec_send_frame(codec_.get(), frame), "encode a frame");
  for (;;) {
    const int code = avcodec_receive_packet(codec_.get(), packet_.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
      return;
    }
    ffmpeg_check(code, "encode a packet");
    av_packet_rescale_ts(packet_.get(), codec_->time_base, stream_->time_base);
    packet_->stream_index = stream_->index;
    ffmpeg_check(av_interleaved_write_frame(format_, packet_.get()), "write a packet");
  }
}

std::string Mp4Writer::finish() {
  write(nullptr);
  ffmpeg_check(av_write_trailer(format_), "write the end of the file");
  std::uint8_t* bytes = nullptr;
  const int size = avio_close_dyn_buf(format_->pb, &bytes);
  format_->pb = nullptr;
  std::string file(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  av_free(bytes);
  return file;
}

// A plane of a moving picture: blocks, waves and noise.
void draw_plane(AVFrame& frame, int plane, std::uint32_t seed, int time) {
  const int width = plane == 0 ? frame.width : frame.width / 2;
  const int height = plane == 0 ? frame.height : frame.height / 2;
  const int stride = frame.linesize[plane];
  std::uint32_t noise = seed * 2654435761U + static_cast<std::uint32_t>(time * 3 + plane);
  for (int y = 0; y < height; ++y) {
    std::uint8_t* row = frame.data[plane] + static_cast<std::ptrdiff_t>(y) * stride;
    for (int x = 0; x < width; ++x) {
      noise = noise * 1664525U + 1013904223U;
      const int moved = x + 2 * time + static_cast<int>(seed % 31);
      const bool is_block = (moved / 37 + (y + time) / 29) % 3 == 0;
      const int wave = (moved * 2 + y) % 128 / 2;
      const int grain = static_cast<int>(noise >> 30);
      row[x] = static_cast<std::uint8_t>(70 + wave + (is_block ? 60 : 0) + grain);
    }
  }
}

void put_number(std::string& bytes, std::uint32_t number, int size) {
  for (int i = 0; i < size; ++i) {
    bytes.push_back(static_cast<char>(number >> (8 * i)));
  }
}

}  // namespace

std::string video_encoder() {
  return avcodec_find_encoder_by_name("libx264") != nullptr ? "libx264" : "mpeg4";
}

std::string encode_video(std::uint32_t seed, const VideoSpec& spec) {
  Mp4Writer writer(spec);
  const FfmpegPtr<AVFrame> frame = ffmpeg_owned(av_frame_alloc(), "a frame");
  frame->format = AV_PIX_FMT_YUV420P;
  frame->width = spec.width;
  frame->height = spec.height;
  ffmpeg_check(av_frame_get_buffer(frame.get(), 0), "make a frame");
  for (int time = 0; time < spec.frames; ++time) {
    ffmpeg_check(av_frame_make_writable(frame.get()), "write a frame");
    for (int plane = 0; plane < 3; ++plane) {
      draw_plane(*frame, plane, seed, time);
    }
    frame->pts = time;
    writer.write(frame.get());
  }
  return writer.finish();
}

std::string encode_wav(std::uint32_t seed, std::int64_t samples, int samples_per_second) {
  constexpr int kSampleBytes = 2;
  const auto bytes = static_cast<std::uint32_t>(samples * kSampleBytes);
  const auto rate = static_cast<std::uint32_t>(samples_per_second);
  std::string file = "RIFF";
  put_number(file, 36 + bytes, 4);
  file += "WAVEfmt ";
  for (const auto& [number, size] :
       std::initializer_list<std::pair<std::uint32_t, int>>{{16, 4},
                                                            {1, 2},
                                                            {1, 2},
                                                            {rate, 4},
                                                            {rate * kSampleBytes, 4},
                                                            {kSampleBytes, 2},
                                                            {16, 2}}) {
    put_number(file, number, size);
  }
  file += "data";
  put_number(file, bytes, 4);
  for (std::int64_t i = 0; i < samples; ++i) {
    const double level = 8000 * std::sin(static_cast<double>(i) * (seed % 97 + 20) / 1000);
    put_number(file, static_cast<std::uint32_t>(static_cast<std::int32_t>(level)), kSampleBytes);
  }
  return file;
}

}  // namespace energon::bench
