#include "media/av/av_input.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

extern "C" {
#include <libavutil/error.h>
#include <libavutil/log.h>
#include <libavutil/opt.h>
}

namespace energon {

// --- Messages of FFmpeg ---

namespace {

thread_local AvLogScope* current_log = nullptr;

// "h264: the message" without FFmpeg's addresses, which differ from run to run.
std::string log_line(void* source, const char* format, std::va_list arguments) {
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::string line = text.data();
  while (!line.empty() && (line.back() == '\n' || line.back() == '.' || line.back() == ' ')) {
    line.pop_back();
  }
  const auto* described = source == nullptr ? nullptr : *static_cast<const AVClass**>(source);
  const char* name = described == nullptr ? nullptr : described->item_name(source);
  return printable(name == nullptr || std::string_view(name) == "NULL"
                       ? line
                       : fmt::format("{}: {}", name, line));
}

void on_av_log(void* source, int level, const char* format, std::va_list arguments) noexcept {
  if (current_log == nullptr) {
    av_log_default_callback(source, level, format, arguments);
    return;
  }
  if (level > AV_LOG_ERROR) {
    return;
  }
  try {
    current_log->keep(log_line(source, format, arguments));
  } catch (...) {  // out of memory for the text: the code of the failed call still remains
  }
}

ErrorCode code_of(int code, const std::string& cause) {
  if (code == AVERROR(ENOMEM) || cause.find("max pixel count") != std::string::npos) {
    return ErrorCode::kResourceExhausted;
  }
  switch (code) {
    case AVERROR_PATCHWELCOME:
    case AVERROR_DECODER_NOT_FOUND:
    case AVERROR_DEMUXER_NOT_FOUND:
    case AVERROR(ENOSYS):
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kCorruptData;
  }
}

}  // namespace

AvLogScope::AvLogScope() : outer_(std::exchange(current_log, this)) {
  static std::once_flag installed;
  std::call_once(installed, [] { av_log_set_callback(on_av_log); });
}

AvLogScope::~AvLogScope() { current_log = outer_; }

Error av_error(std::string what, int code, const AvLogScope& log) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(code, text.data(), text.size());
  const std::string& cause = log.last_error();
  const char* between = cause.empty() ? "" : ": ";
  return Error(code_of(code, cause), fmt::format("{}{}{} ({})", what, between, cause, text.data()));
}

// --- The file ---

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

// The demuxer of a container; null if only libavformat can find it, by asking all of its demuxers,
// which takes longer than decoding a small file.
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

// Refuses other files that a container names.
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
      container_(recognize_av_container(file)),
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
    throw Error(ErrorCode::kResourceExhausted, "FFmpeg is out of memory");
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
                av_error("the file is not supported sound or video (AVI, Matroska, WebM, MP4, MOV, "
                         "WAV, FLAC, MP3, Ogg, AAC, FLV)",
                         code, log)
                    .message());
  }
  throw av_error("the header of the sound or video cannot be read", code, log);
}

void AvInput::find_stream_info(const DecodeLimits& limits, AvLogScope& log) {
  if ((format_->ctx_flags & AVFMTCTX_NOHEADER) != 0) {
    // Do not decode: streams that appear later would be probed by decoders without a limit.
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
    throw Error(ErrorCode::kUnsupported, "the file has no known stream of video or sound");
  }
  if (format_->start_time != AV_NOPTS_VALUE && format_->start_time > 0) {
    zero_seconds_ = static_cast<double>(format_->start_time) / AV_TIME_BASE;
    for (const AVStream* stream : {video_, audio_}) {  // avoids rounding to microseconds
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
    // libavformat skips unreadable data and only logs a message, but frames must not be lost
    // silently.
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

// --- Packets ---

namespace {

// At most this many bytes are between the position that a demuxer reports and the packet's data:
// headers of blocks and tags.
constexpr std::uint64_t kMostHeaderBytes = 64;

// The packet's data in the file, or an empty view if the data is not contiguous there.
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

// The headers of AVI and MP3 contain the duration of a stream. For FLAC, AudioReader counts
// samples.
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
    // AVI slots may be empty, which repeats the last frame.
    duration = is_avi && packet.dts != AV_NOPTS_VALUE ? packet.dts + 1 : duration + packet.duration;
  }
  if (duration < stream->duration) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("a stream ends at second {:.3f}, but at {:.3f} in its header: the file "
                            "is truncated or damaged",
                            av_seconds(duration, stream->time_base),
                            av_seconds(stream->duration, stream->time_base)));
  }
}

// Matroska stores the encoder delay in the header of the track (CodecDelay). Older versions of
// FFmpeg shift the times of packets by it, but leave it to players to drop the samples. This adds
// the delay to the first packet, as newer versions do and as in other containers. The Opus decoder
// drops the samples itself.
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
      throw Error(ErrorCode::kResourceExhausted, "FFmpeg is out of memory");
    }
    std::fill_n(skip, kSkipBytes, std::uint8_t{0});
  }
  for (unsigned i = 0; i < 4; ++i) {  // little-endian: samples to drop at the start
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
                              "or expand excessively",
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
