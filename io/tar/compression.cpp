#include "io/tar/compression.h"

#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include "io/error.h"
#include "io/file.h"

namespace energon {

// --- Detection ---

namespace {

using std::string_view_literals::operator""sv;

struct Hint {
  std::string_view begins_with;
  std::string_view text;
};

constexpr std::array kHints = {
    Hint{"version https://git-lfs"sv, "a git-lfs pointer: run 'git lfs pull'"},
    Hint{"<"sv, "an HTML or XML page, perhaps the error page of a download"},
    Hint{"{"sv, "JSON, perhaps the error message of a download"},
    Hint{"PK\x03\x04"sv, "a zip archive"},
    Hint{"\x1f\x8b"sv, "gzip: name it .tar.gz or .tgz"},
    Hint{"\x28\xb5\x2f\xfd"sv, "zstd: name it .tar.zst"},
    Hint{"BZh"sv, "bzip2, which is not supported"},
    Hint{"\xfd"
         "7zXZ\0"sv,
         "xz, which is not supported"},
    Hint{"\xff\xd8\xff"sv, "a JPEG image"},
    Hint{"\x89PNG"sv, "a PNG image"},
    Hint{"\x89HDF"sv, "an HDF5 file"},
    Hint{"PAR1"sv, "a Parquet file"},
};

}  // namespace

std::string_view to_string(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZstd:
      return "zstd";
  }
  return "unknown";
}

Compression compression_of_name(std::string_view path) {
  if (path.ends_with(".tgz") || path.ends_with(".tar.gz")) {
    return Compression::kGzip;
  }
  if (path.ends_with(".tar.zst")) {
    return Compression::kZstd;
  }
  return Compression::kNone;
}

Compression compression_of_magic(ByteView first_bytes) {
  const std::string_view text = as_text(first_bytes);
  if (text.starts_with("\x1f\x8b"sv)) {
    return Compression::kGzip;
  }
  // A stream may begin with a skippable frame, 0x184D2A50 to 0x184D2A5F in little-endian order.
  const bool skippable = text.size() >= 4 && (text[0] & 0xF0) == 0x50 && text[1] == '\x2a' &&
                         text[2] == '\x4d' && text[3] == '\x18';
  return text.starts_with("\x28\xb5\x2f\xfd"sv) || skippable ? Compression::kZstd
                                                             : Compression::kNone;
}

Compression compression_of(const FileSource& file) {
  std::array<std::byte, 64> buffer{};
  const auto first = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), file.size()));
  file.read_at(0, first);
  const Compression by_name = compression_of_name(file.path());
  const Compression by_magic = compression_of_magic(first);
  if (by_name != by_magic) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("expected compression {} from the file's name, found {}; {}",
                            to_string(by_name), to_string(by_magic), describe_first_bytes(first)),
                {.path = file.path(), .byte_offset = 0});
  }
  return by_name;
}

std::string describe_first_bytes(ByteView first_bytes) {
  const std::string_view text = as_text(first_bytes);
  std::string result = text.empty()
                           ? std::string("it is empty")
                           : fmt::format("it begins with '{}'", printable(text.substr(0, 32)));
  const auto hint = std::find_if(kHints.begin(), kHints.end(), [text](const Hint& candidate) {
    return text.starts_with(candidate.begins_with);
  });
  if (hint != kHints.end()) {
    result += fmt::format(", which looks like {}", hint->text);
  }
  return result;
}

// --- Expanding ---

namespace {

constexpr std::size_t kWriteBytes = std::size_t{256} << 10;

// The compressed file, chunk by chunk.
class Input {
 public:
  explicit Input(const FileSource& file) : file_(file), chunk_(kWriteBytes) {}

  /// The bytes that have not been consumed; empty only at the end of the file.
  ByteView pending() {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = std::min<std::uint64_t>(chunk_.size(), file_.size() - read_);
      file_.read_at(read_, std::span(chunk_).first(end_));
      read_ += end_;
    }
    return ByteView(chunk_).subspan(begin_, end_ - begin_);
  }
  void consume(std::size_t count) { begin_ += count; }
  std::uint64_t position() const { return read_ - (end_ - begin_); }

 private:
  const FileSource& file_;
  std::vector<std::byte> chunk_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t read_ = 0;
};

// The output file, with the limits.
class Output {
 public:
  Output(const FileSource& file, int fd, const ExpandLimits& limits)
      : file_(file), limits_(limits), fd_(fd), chunk_(kWriteBytes) {}

  std::span<std::byte> chunk() { return chunk_; }
  std::uint64_t written() const { return written_; }

  void write(std::size_t count, std::uint64_t consumed) {
    check_limits(written_ + count, consumed);
    write_all(fd_, ByteView(chunk_).first(count), "cannot write the expanded shard",
              {.path = file_.path(), .byte_offset = written_});
    written_ += count;
  }

  Error corrupt(std::uint64_t consumed, std::string_view reason) const {
    return Error(
        ErrorCode::kCorruptData,
        fmt::format("compressed shard, at byte {} of {}: {}", consumed, file_.size(), reason),
        {.path = file_.path(), .byte_offset = written_});
  }

 private:
  void check_limits(std::uint64_t total, std::uint64_t consumed) const {
    const ErrorContext where{.path = file_.path(), .byte_offset = written_};
    if (total > limits_.max_output_bytes) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("the shard expands to more than {} bytes "
                              "(ExpandLimits::max_output_bytes)",
                              limits_.max_output_bytes),
                  where);
    }
    if (total > limits_.free_output_bytes && total / limits_.max_ratio > consumed) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("{} bytes of the shard expand to {}, more than {} times as many "
                              "(ExpandLimits::max_ratio)",
                              consumed, total, limits_.max_ratio),
                  where);
    }
  }

  const FileSource& file_;
  const ExpandLimits limits_;
  const int fd_;
  std::vector<std::byte> chunk_;
  std::uint64_t written_ = 0;
};

struct InflateEnd {
  void operator()(z_stream* stream) const {
    inflateEnd(stream);
    delete stream;
  }
};

// Like gzip(1), accepts zeros after the last member, which pad tapes. Nothing else may follow.
void skip_padding(Input& input, const Output& output) {
  for (ByteView pending; !(pending = input.pending()).empty();) {
    const auto other =
        std::find_if(pending.begin(), pending.end(), [](std::byte b) { return b != std::byte{0}; });
    input.consume(static_cast<std::size_t>(other - pending.begin()));
    if (other != pending.end()) {
      throw output.corrupt(input.position(), "data after the zeros that pad the gzip stream");
    }
  }
}

// With the gzip wrapper, zlib itself verifies CRC-32 and length of each member.
void expand_gzip(Input& input, Output& output) {
  const std::unique_ptr<z_stream, InflateEnd> stream(new z_stream{});
  constexpr int kGzipOnly = 16;
  if (inflateInit2(stream.get(), MAX_WBITS + kGzipOnly) != Z_OK) {
    throw std::bad_alloc();
  }
  bool inside_member = true;
  for (ByteView pending; !(pending = input.pending()).empty();) {
    if (!inside_member) {
      if (pending.front() == std::byte{0}) {
        skip_padding(input, output);
        return;
      }
      inflateReset(stream.get());
      inside_member = true;
    }
    stream->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(pending.data()));
    stream->avail_in = static_cast<uInt>(pending.size());
    stream->next_out = reinterpret_cast<Bytef*>(output.chunk().data());
    stream->avail_out = static_cast<uInt>(output.chunk().size());
    const int code = inflate(stream.get(), Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    }
    if (code != Z_OK && code != Z_STREAM_END) {
      throw output.corrupt(input.position(),
                           stream->msg != nullptr ? stream->msg : "not a gzip stream");
    }
    input.consume(pending.size() - stream->avail_in);
    output.write(output.chunk().size() - stream->avail_out, input.position());
    inside_member = code != Z_STREAM_END;
  }
  if (inside_member) {
    throw output.corrupt(input.position(), "the gzip stream is truncated");
  }
}

struct ZstdEnd {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

class ZstdDecoder {
 public:
  explicit ZstdDecoder(const ExpandLimits& limits)
      : limits_(limits), stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) {
      throw std::bad_alloc();
    }
    if (ZSTD_isError(ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax,
                                            limits.max_zstd_window_log)) != 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("ExpandLimits::max_zstd_window_log is {}, which zstd does not accept",
                              limits.max_zstd_window_log));
    }
  }

  // Returns false between frames. Throws Error; `position` (in the input) and `output` are only
  // used in its message.
  bool step(ZSTD_inBuffer& in, ZSTD_outBuffer& out, std::uint64_t position, const Output& output) {
    const std::size_t missing = ZSTD_decompressStream(stream_.get(), &out, &in);
    if (ZSTD_isError(missing) == 0) {
      return missing != 0;
    }
    if (ZSTD_getErrorCode(missing) == ZSTD_error_frameParameter_windowTooLarge) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("the zstd frame needs a window of more than 2^{} bytes "
                              "(ExpandLimits::max_zstd_window_log)",
                              limits_.max_zstd_window_log),
                  {.byte_offset = output.written()});
    }
    throw output.corrupt(position, ZSTD_getErrorName(missing));
  }

 private:
  const ExpandLimits& limits_;
  const std::unique_ptr<ZSTD_DStream, ZstdEnd> stream_;
};

void expand_zstd(Input& input, Output& output, const ExpandLimits& limits) {
  ZstdDecoder decoder(limits);
  bool is_in_frame = true;
  for (ByteView pending; !(pending = input.pending()).empty();) {
    ZSTD_inBuffer in{pending.data(), pending.size(), 0};
    ZSTD_outBuffer out{output.chunk().data(), output.chunk().size(), 0};
    is_in_frame = decoder.step(in, out, input.position(), output);
    input.consume(in.pos);
    output.write(out.pos, input.position());
    // The decoder may still hold output after all input is consumed.
    while (is_in_frame && out.pos == out.size) {
      in = {nullptr, 0, 0};
      out.pos = 0;
      is_in_frame = decoder.step(in, out, input.position(), output);
      output.write(out.pos, input.position());
    }
  }
  if (is_in_frame) {
    throw output.corrupt(input.position(), "the zstd stream is truncated");
  }
}

}  // namespace

std::uint64_t expand(const FileSource& file, int output_fd, const ExpandLimits& limits) {
  if (limits.max_output_bytes == 0 || limits.max_ratio == 0) {
    throw Error(ErrorCode::kInvalidArgument, "ExpandLimits must be at least 1");
  }
  Input input(file);
  Output output(file, output_fd, limits);
  try {
    switch (compression_of(file)) {
      case Compression::kGzip:
        expand_gzip(input, output);
        break;
      case Compression::kZstd:
        expand_zstd(input, output, limits);
        break;
      case Compression::kNone:
        throw Error(ErrorCode::kInvalidArgument, "the shard is not compressed: read it directly");
    }
  } catch (Error& error) {
    error.with({.path = file.path()});
    throw;
  }
  return output.written();
}

}  // namespace energon
