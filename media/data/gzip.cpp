#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "io/error.h"
#include "media/data/documents.h"

namespace energon {
namespace {

constexpr std::uint64_t kMaxRatio = 1032;  // of deflate's compression
constexpr std::uint64_t kLeastBuffer = 4096;
constexpr std::size_t kMaxStep = std::size_t{1} << 30;  // zlib counts in 32 bits

// A zlib stream. zlib checks the CRC-32 and the length of each member.
class GzipStream {
 public:
  GzipStream() {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~GzipStream() { inflateEnd(&stream_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  void next_member() { inflateReset(&stream_); }

  // Advances both by the bytes read and written. True at the end of a member. Throws Error with
  // offsets from `position`.
  bool step(ByteView& from, std::span<std::byte>& to, std::size_t position) {
    const std::size_t from_size = std::min(from.size(), kMaxStep);
    const std::size_t to_size = std::min(to.size(), kMaxStep);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
    stream_.avail_in = static_cast<uInt>(from_size);
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(to_size);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    }
    from = from.subspan(from_size - stream_.avail_in);
    to = to.subspan(to_size - stream_.avail_out);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("the gzip is damaged at byte {}: {}", position + from_size - stream_.avail_in,
                      stream_.msg != nullptr ? stream_.msg : "not a gzip stream"));
    }
    return code == Z_STREAM_END;
  }

 private:
  z_stream stream_ = {};
};

// The expanded bytes, in growing memory.
class GzipOutput {
 public:
  // `expected` is the size of the result if the encoded data is correct about it.
  GzipOutput(std::uint64_t expected, const DecodeLimits& limits, BufferAllocator& memory)
      : limits_(limits), memory_(memory), buffer_(memory.allocate(expected)) {}

  std::span<std::byte> free_bytes() {
    if (written_ == buffer_.bytes.size()) {
      grow();
    }
    return buffer_.bytes.subspan(written_);
  }
  void advance(std::size_t count) {
    written_ += count;
    check_decoded_bytes("the expanded gzip", written_, limits_);
  }
  SharedBytes take() {
    if (written_ < buffer_.bytes.size() / 2) {
      move_to(written_);
    }
    return {.view = buffer_.bytes.first(written_), .owner = std::move(buffer_.owner)};
  }

 private:
  // One byte above the limit is enough to detect that the limit is exceeded.
  void grow() {
    const std::uint64_t wanted = std::max(kLeastBuffer, std::uint64_t{2} * written_);
    move_to(std::min(wanted, std::max<std::uint64_t>(limits_.max_bytes, written_) + 1));
  }
  void move_to(std::uint64_t size) {
    Buffer next = memory_.allocate(size);
    if (written_ > 0) {
      std::memcpy(next.bytes.data(), buffer_.bytes.data(), written_);
    }
    buffer_ = std::move(next);
  }

  const DecodeLimits& limits_;
  BufferAllocator& memory_;
  Buffer buffer_;
  std::size_t written_ = 0;
};

// The size in the last four bytes: that of the last member, modulo 2^32. One byte more, so that the
// end is detected without growing. Bounded by deflate's maximum ratio.
std::uint64_t expected_bytes(ByteView encoded, const DecodeLimits& limits) {
  std::uint32_t claimed = 0;
  if (encoded.size() >= sizeof claimed) {
    for (std::size_t i = 0; i < sizeof claimed; ++i) {
      const auto byte = std::to_integer<std::uint32_t>(encoded[encoded.size() - 4 + i]);
      claimed |= byte << (8 * i);
    }
  }
  const std::uint64_t possible = std::uint64_t{encoded.size()} * kMaxRatio;
  return std::min({std::uint64_t{claimed} + 1, possible, limits.max_bytes}) + 1;
}

// Requires: `rest` is not empty and follows a member. Throws Error if it is not all zeros.
bool is_padding(ByteView rest, std::size_t position) {
  if (rest.front() != std::byte{0}) {
    return false;
  }
  const auto other = std::ranges::find_if(rest, [](std::byte b) { return b != std::byte{0}; });
  if (other != rest.end()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("data after the zero padding of the gzip, at byte {}",
                            position + static_cast<std::size_t>(other - rest.begin())));
  }
  return true;
}

}  // namespace

SharedBytes expand_gzip(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory) {
  GzipStream stream;
  GzipOutput output(expected_bytes(encoded, limits), limits, memory);
  ByteView rest = encoded;
  while (true) {
    const std::size_t position = encoded.size() - rest.size();
    std::span<std::byte> to = output.free_bytes();
    const std::size_t room = to.size();
    const bool is_end = stream.step(rest, to, position);
    output.advance(room - to.size());
    if (is_end) {
      if (rest.empty() || is_padding(rest, encoded.size() - rest.size())) {
        return output.take();
      }
      stream.next_member();
    } else if (rest.empty() && !to.empty()) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("the gzip is truncated: its {} bytes end inside a member", encoded.size()));
    }
  }
}

}  // namespace energon
