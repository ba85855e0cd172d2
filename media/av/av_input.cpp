#include "media/av/av_input.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

extern "C" {
#include <libavutil/opt.h>
}

namespace energon {
namespace {

constexpr int kIoBytes = 1 << 16;
constexpr std::int64_t kProbeBytes = 5'000'000;
constexpr std::int64_t kProbeMicroseconds = 5'000'000;
constexpr const char* kContainers = "avi,matroska,webm,mov,mp4,wav,flac,mp3,ogg,aac,flv";

ByteView not_empty(ByteView file) {
  if (file.empty()) {
    throw Error(ErrorCode::kCorruptData, "the file of sound or video is empty");
  }
  return file;
}

// The demuxer that reads a container; null where only libavformat can tell, which asks all of its
// demuxers: for a small file, that takes longer than decoding it.
const AVInputFormat* demuxer_of(AvContainer container, ByteView file) {
  switch (container) {
    case AvContainer::kMp4:
      return av_find_input_format("mov");
    case AvContainer::kMatroska:
      return av_find_input_format("matroska");
    case AvContainer::kRiff:
      return av_find_input_format(as_text(file).substr(8, 3) == "AVI" ? "avi" : "wav");
    case AvContainer::kOgg:
      return av_find_input_format("ogg");
    case AvContainer::kFlac:
      return av_find_input_format("flac");
    case AvContainer::kFlv:
      return av_find_input_format("flv");
    case AvContainer::kAdts:
      return av_find_input_format("aac");
    case AvContainer::kOther:
      return nullptr;
  }
  return nullptr;
}

// Every other file that a container names is refused.
int refuse_open(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EPERM);
}

// Options of avformat_find_stream_info(), one dictionary per stream.
class StreamOptions {
 public:
  StreamOptions(unsigned streams, std::uint64_t max_pixels) : dictionaries_(streams) {
    const std::uint64_t pixels = std::min<std::uint64_t>(max_pixels, INT32_MAX);
    for (AVDictionary*& dictionary : dictionaries_) {
      av_dict_set_int(&dictionary, "max_pixels", static_cast<std::int64_t>(pixels), 0);
      av_dict_set_int(&dictionary, "threads", 1, 0);
    }
  }
  ~StreamOptions() {
    for (AVDictionary*& dictionary : dictionaries_) {
      av_dict_free(&dictionary);
    }
  }
  StreamOptions(const StreamOptions&) = delete;
  StreamOptions& operator=(const StreamOptions&) = delete;

  AVDictionary** data() { return dictionaries_.data(); }

 private:
  std::vector<AVDictionary*> dictionaries_;
};

}  // namespace

void AvDelete::operator()(AVIOContext* io) const {
  av_freep(&io->buffer);
  avio_context_free(&io);
}

AvInput::AvInput(ByteView file, const DecodeLimits& limits)
    : file_(not_empty(file)),
      container_(recognise_av_container(file)),
      memory_{file, 0, 64 * std::uint64_t{file.size()} + (std::uint64_t{64} << 20)} {
  check_av_container(container_, file_);
  AvLogScope log;
  open_format(log);
  find_stream_info(limits, log);
  choose_streams();
}

AvInput::~AvInput() {
  const AvLogScope silent;
  format_.reset();
}

void AvInput::open_format(AvLogScope& log) {
  auto* buffer = static_cast<unsigned char*>(av_malloc(kIoBytes));
  io_ =
      AvPtr<AVIOContext>(buffer == nullptr ? nullptr
                                           : avio_alloc_context(buffer, kIoBytes, 0, &memory_,
                                                                read_memory, nullptr, seek_memory));
  if (!io_) {
    av_free(buffer);
    throw Error(ErrorCode::kResourceExhausted, "FFmpeg has no memory");
  }
  AvPtr<AVFormatContext> format = owned(avformat_alloc_context());
  format->pb = io_.get();
  format->flags |= AVFMT_FLAG_CUSTOM_IO;
  format->io_open = refuse_open;
  format->probesize = kProbeBytes;
  format->max_analyze_duration = kProbeMicroseconds;
  format->max_streams = 64;
  av_opt_set(format.get(), "format_whitelist", kContainers, 0);
  av_opt_set(format.get(), "protocol_whitelist", "", 0);
  AVFormatContext* opened = format.release();  // freed by avformat_open_input() if it fails
  const int code = avformat_open_input(&opened, "", demuxer_of(container_, file_), nullptr);
  format_.reset(opened);
  if (code >= 0) {
    return;
  }
  if (container_ == AvContainer::kOther) {
    throw Error(ErrorCode::kUnsupported,
                av_error("the file is no sound or video that is supported (AVI, Matroska, WebM, "
                         "MP4, MOV, WAV, FLAC, MP3, Ogg, AAC, FLV)",
                         code, log)
                    .message());
  }
  throw av_error("the header of the sound or video cannot be read", code, log);
}

void AvInput::find_stream_info(const DecodeLimits& limits, AvLogScope& log) {
  if ((format_->ctx_flags & AVFMTCTX_NOHEADER) != 0) {
    // Streams that appear later would be probed by decoders without a limit: do not decode.
    av_opt_set(format_.get(), "codec_whitelist", "none", 0);
  }
  log.clear();
  StreamOptions options(format_->nb_streams, limits.max_pixels);
  const int code = avformat_find_stream_info(format_.get(), options.data());
  if (code < 0) {
    throw av_error("the streams of the sound or video cannot be read", code, log);
  }
}

void AvInput::choose_streams() {
  for (AVStream* stream : std::span(format_->streams, format_->nb_streams)) {
    const AVMediaType type = stream->codecpar->codec_type;
    const bool is_picture = (stream->disposition & AV_DISPOSITION_ATTACHED_PIC) != 0;
    if (type == AVMEDIA_TYPE_VIDEO && !is_picture && video_ == nullptr) {
      video_ = stream;
    } else if (type == AVMEDIA_TYPE_AUDIO && audio_ == nullptr) {
      audio_ = stream;
    } else {
      stream->discard = AVDISCARD_ALL;
    }
  }
  if (video_ == nullptr && audio_ == nullptr) {
    throw Error(ErrorCode::kUnsupported, "the file has no stream of video or sound that is known");
  }
  if (format_->start_time != AV_NOPTS_VALUE && format_->start_time > 0) {
    zero_seconds_ = static_cast<double>(format_->start_time) / AV_TIME_BASE;
    for (const AVStream* stream : {video_, audio_}) {  // the same without rounding to microseconds
      if (stream != nullptr && stream->start_time != AV_NOPTS_VALUE) {
        const double start = av_seconds(stream->start_time, stream->time_base);
        zero_seconds_ = start > zero_seconds_ + 1e-6 ? zero_seconds_ : start;
      }
    }
  }
}

bool AvInput::read(AVPacket& packet) {
  AvLogScope log;
  for (;;) {
    const int code = av_read_frame(format_.get(), &packet);
    if (code == AVERROR_EOF && log.last_error().empty() && memory_.may_read > 0) {
      return false;
    }
    const auto at = static_cast<std::uint64_t>(std::max<std::int64_t>(avio_tell(io_.get()), 0));
    // libavformat skips what it cannot read and only says so: never fewer frames silently.
    if (code < 0 || !log.last_error().empty() || (packet.flags & AV_PKT_FLAG_CORRUPT) != 0) {
      av_packet_unref(&packet);
      throw av_error(fmt::format("the container is damaged or truncated before byte {} of {}", at,
                                 file_.size()),
                     code < 0 ? code : AVERROR_INVALIDDATA, log)
          .with({.byte_offset = at});
    }
    const bool is_chosen = (video_ != nullptr && packet.stream_index == video_->index) ||
                           (audio_ != nullptr && packet.stream_index == audio_->index);
    if (is_chosen && packet.size > 0) {
      return true;
    }
    av_packet_unref(&packet);
  }
}

int AvInput::read_memory(void* memory, std::uint8_t* to, int size) {
  auto& from = *static_cast<Memory*>(memory);
  const std::size_t left = from.bytes.size() - from.position;
  const std::size_t count = std::min<std::size_t>(left, static_cast<std::size_t>(size));
  if (count > from.may_read) {
    from.may_read = 0;
    return AVERROR_EXIT;
  }
  if (count == 0) {
    return AVERROR_EOF;
  }
  std::memcpy(to, from.bytes.data() + from.position, count);
  from.position += count;
  from.may_read -= count;
  return static_cast<int>(count);
}

std::int64_t AvInput::seek_memory(void* memory, std::int64_t offset, int whence) {
  auto& from = *static_cast<Memory*>(memory);
  const auto size = static_cast<std::int64_t>(from.bytes.size());
  if ((whence & AVSEEK_SIZE) != 0) {
    return size;
  }
  const std::int64_t base = (whence & 3) == SEEK_SET   ? 0
                            : (whence & 3) == SEEK_CUR ? static_cast<std::int64_t>(from.position)
                                                       : size;
  std::int64_t position = 0;
  if (__builtin_add_overflow(base, offset, &position) || position < 0) {
    return AVERROR(EINVAL);
  }
  from.position = static_cast<std::size_t>(std::min(position, size));
  return position;
}

std::int64_t av_skipped_samples(const AVPacket& packet) {
  std::size_t size = 0;
  const std::uint8_t* data = av_packet_get_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
  std::uint32_t samples = 0;
  if (data != nullptr && size >= 4) {
    samples = data[0] | std::uint32_t{data[1]} << 8 | std::uint32_t{data[2]} << 16 |
              std::uint32_t{data[3]} << 24;
  }
  return samples;
}

}  // namespace energon
