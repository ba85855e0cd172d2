// Owners of FFmpeg's objects, and a file in memory for libavformat.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/bytes.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}

namespace energon::bench {

struct FfmpegDelete {
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};
template <class T>
using FfmpegPtr = std::unique_ptr<T, FfmpegDelete>;

/// `object` with an owner. Throws Error (kInternal) if it is null; `what` names the object in the
/// message.
template <class T>
FfmpegPtr<T> ffmpeg_owned(T* object, const char* what);

/// `code` unless it is an error. Throws Error (kInternal) with FFmpeg's text.
int ffmpeg_check(int code, const char* what);

/// A file in memory, opened for reading. Borrows the file. Not thread-safe.
class FfmpegInput {
 public:
  /// Throws Error (kInternal).
  explicit FfmpegInput(ByteView file);
  ~FfmpegInput();
  FfmpegInput(const FfmpegInput&) = delete;
  FfmpegInput& operator=(const FfmpegInput&) = delete;

  AVFormatContext* format() const { return format_; }
  /// The first video. Throws Error (kInternal) if there is none.
  AVStream* video() const;

 private:
  static int read(void* input, std::uint8_t* to, int size);
  static std::int64_t seek(void* input, std::int64_t offset, int whence);

  ByteView file_;
  std::size_t position_ = 0;
  AVIOContext* io_ = nullptr;
  AVFormatContext* format_ = nullptr;
};

[[noreturn]] void ffmpeg_failed(const char* what);

template <class T>
FfmpegPtr<T> ffmpeg_owned(T* object, const char* what) {
  if (object == nullptr) {
    ffmpeg_failed(what);
  }
  return FfmpegPtr<T>(object);
}

}  // namespace energon::bench
