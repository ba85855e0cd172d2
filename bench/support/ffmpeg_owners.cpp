#include "bench/support/ffmpeg_owners.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "io/error.h"

namespace energon::bench {
namespace {

constexpr int kIoBytes = 1 << 16;

}  // namespace

void ffmpeg_failed(const char* what) {
  throw Error(ErrorCode::kInternal, fmt::format("FFmpeg cannot allocate {}", what));
}

int ffmpeg_check(int code, const char* what) {
  if (code < 0) {
    std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
    av_strerror(code, text.data(), text.size());
    throw Error(ErrorCode::kInternal, fmt::format("FFmpeg failed to {}: {}", what, text.data()));
  }
  return code;
}

int FfmpegInput::read(void* input, std::uint8_t* to, int size) {
  auto& self = *static_cast<FfmpegInput*>(input);
  const std::size_t count =
      std::min(static_cast<std::size_t>(size), self.file_.size() - self.position_);
  if (count == 0) {
    return AVERROR_EOF;
  }
  std::memcpy(to, self.file_.data() + self.position_, count);
  self.position_ += count;
  return static_cast<int>(count);
}

std::int64_t FfmpegInput::seek(void* input, std::int64_t offset, int whence) {
  auto& self = *static_cast<FfmpegInput*>(input);
  const auto size = static_cast<std::int64_t>(self.file_.size());
  if ((whence & AVSEEK_SIZE) != 0) {
    return size;
  }
  const std::int64_t from = whence == SEEK_CUR   ? static_cast<std::int64_t>(self.position_)
                            : whence == SEEK_END ? size
                                                 : 0;
  if (from + offset < 0 || from + offset > size) {
    return AVERROR(EINVAL);
  }
  self.position_ = static_cast<std::size_t>(from + offset);
  return from + offset;
}

FfmpegInput::FfmpegInput(ByteView file) : file_(file) {
  auto* buffer = static_cast<unsigned char*>(av_malloc(kIoBytes));
  io_ = avio_alloc_context(buffer, kIoBytes, 0, this, read, nullptr, seek);
  format_ = avformat_alloc_context();
  if (buffer == nullptr || io_ == nullptr || format_ == nullptr) {
    ffmpeg_failed("a file in memory");
  }
  format_->pb = io_;
  ffmpeg_check(avformat_open_input(&format_, "", nullptr, nullptr), "open the file");
  ffmpeg_check(avformat_find_stream_info(format_, nullptr), "read the streams");
}

FfmpegInput::~FfmpegInput() {
  avformat_close_input(&format_);
  av_freep(&io_->buffer);
  avio_context_free(&io_);
}

AVStream* FfmpegInput::video() const {
  const int stream = av_find_best_stream(format_, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  return format_->streams[ffmpeg_check(stream, "find the video")];
}

}  // namespace energon::bench
