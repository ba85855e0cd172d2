// Opens sound and video files in memory with libavformat, and owns FFmpeg's objects.
//
// Supported containers: AVI, Matroska and WebM, MP4 and MOV, WAV, FLAC, MP3, Ogg, AAC (ADTS), FLV.
// A file cannot make FFmpeg open another file or a network address.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/bytes.h"
#include "io/error.h"
#include "media/av/av_container.h"
#include "media/decode_limits.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

namespace energon {

// --- Messages of FFmpeg ---

/// Collects FFmpeg's messages as causes of our errors. While a scope exists, messages of FFmpeg on
/// this thread are kept, not printed. Scopes may nest; the innermost receives the messages. Must be
/// destroyed on the thread that created it.
///
/// FFmpeg prints its messages through one callback per process. The first scope of the process
/// installs a callback that keeps the messages of threads inside a scope and passes all others to
/// FFmpeg's default callback.
class AvLogScope {
 public:
  AvLogScope();
  ~AvLogScope();
  AvLogScope(const AvLogScope&) = delete;
  AvLogScope& operator=(const AvLogScope&) = delete;

  /// The last message at FFmpeg's level "error" or worse, printable, or an empty string.
  const std::string& last_error() const { return last_error_; }
  void clear() { last_error_.clear(); }
  /// Called by the callback.
  void keep(std::string line) { last_error_ = std::move(line); }

 private:
  AvLogScope* const outer_;
  std::string last_error_;
};

/// Returns Error with the message "what: last message of FFmpeg (text of the code)":
/// kResourceExhausted if FFmpeg was out of memory or refused a frame above max_pixels, kUnsupported
/// for data that FFmpeg cannot read, else kCorruptData.
Error av_error(std::string what, int code, const AvLogScope& log);

// --- The file ---

/// Frees an object of FFmpeg.
struct AvDelete {
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
  void operator()(AVCodecParserContext* parser) const { av_parser_close(parser); }
  void operator()(AVFormatContext* format) const { avformat_close_input(&format); }
  void operator()(AVIOContext* io) const;
};
template <class T>
using AvPtr = std::unique_ptr<T, AvDelete>;

/// Takes ownership of `object`. Throws Error (kResourceExhausted) if it is null.
template <class T>
AvPtr<T> owned(T* object) {
  if (object == nullptr) {
    throw Error(ErrorCode::kResourceExhausted, "FFmpeg is out of memory");
  }
  return AvPtr<T>(object);
}

/// Not thread-safe. Borrows the file.
class AvInput {
 public:
  /// Opens the file and reads the parameters of its streams. Throws Error: kUnsupported if the file
  /// is not one of the containers above; kCorruptData for a damaged or truncated one;
  /// kResourceExhausted if FFmpeg is out of memory.
  AvInput(ByteView file, const DecodeLimits& limits);
  ~AvInput();
  AvInput(const AvInput&) = delete;
  AvInput& operator=(const AvInput&) = delete;

  /// The first stream of its kind, or null. Pictures attached to sound do not count as video.
  AVStream* video() const { return video_; }
  AVStream* audio() const { return audio_; }
  AvContainer container() const { return container_; }
  AVFormatContext& format() const { return *format_; }
  ByteView file() const { return file_; }

  /// Second 0 in seconds of the container: the start of its first stream, but at least 0.
  double zero_seconds() const { return zero_seconds_; }

  /// Reads the next packet of the two streams; false at the end. Throws Error (kCorruptData) if the
  /// container is damaged there.
  bool read(AVPacket& packet);

 private:
  // The data that libavformat's callbacks read.
  struct Memory {
    ByteView bytes;
    std::size_t position = 0;
    std::uint64_t may_read = 0;  // in total, so that a container cannot make FFmpeg read forever
  };

  static int read_memory(void* memory, std::uint8_t* to, int size);
  static std::int64_t seek_memory(void* memory, std::int64_t offset, int whence);

  void open_format(AvLogScope& log);
  void find_stream_info(const DecodeLimits& limits, AvLogScope& log);
  void choose_streams();

  const ByteView file_;
  const AvContainer container_;
  Memory memory_;
  AvPtr<AVIOContext> io_;
  AvPtr<AVFormatContext> format_;  // uses io_, hence after it
  AVStream* video_ = nullptr;
  AVStream* audio_ = nullptr;
  double zero_seconds_ = 0;
};

/// A stream's `timestamp` in seconds, rounded once.
inline double av_seconds(std::int64_t timestamp, AVRational time_base) {
  return static_cast<double>(timestamp) * time_base.num / time_base.den;
}

/// The number of samples to drop at the start of the sound, if the packet contains it, else 0.
std::int64_t av_skipped_samples(const AVPacket& packet);

// --- Packets ---

/// Encoded data of one or more frames.
struct AvStoredPacket {
  ByteView data;
  std::int64_t pts = AV_NOPTS_VALUE;  ///< in units of the stream's time base
  std::int64_t dts = AV_NOPTS_VALUE;
  std::int64_t duration = 0;
  int flags = 0;           ///< AV_PKT_FLAG_KEY, AV_PKT_FLAG_DISCARD
  AvPtr<AVPacket> packet;  ///< null unless it has side data or is not contiguous in the file

  bool is_key() const { return (flags & AV_PKT_FLAG_KEY) != 0; }
  /// Decoded, but not shown: outside the edit list.
  bool is_hidden() const { return (flags & AV_PKT_FLAG_DISCARD) != 0; }
};

/// The packets of one stream.
struct AvStreamPackets {
  std::vector<AvStoredPacket> packets;

  std::size_t size() const { return packets.size(); }
  const AvStoredPacket& operator[](std::size_t index) const { return packets[index]; }
};

/// All packets of a file's video and sound, in memory, in decoding order.
///
/// They make every seek exact in every container, because decoding can restart at any packet.
/// Packets that are contiguous in the file are views of it; others are copies, so that little
/// memory is used besides the file.
struct AvPackets {
  AvStreamPackets video;
  AvStreamPackets audio;
};

/// Reads `input` to its end. Views refer to its file. Throws Error (kCorruptData) if the container
/// is damaged or truncated, or its packets add up to much more than the file.
AvPackets read_av_packets(AvInput& input);

}  // namespace energon
