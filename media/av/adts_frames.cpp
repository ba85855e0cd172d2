#include <cstdint>

#include <fmt/format.h>

#include "io/error.h"
#include "media/av/av_container.h"

namespace energon {
namespace {

constexpr std::uint64_t kAdtsHeaderBytes = 7;
constexpr std::uint64_t kId3TagBytes = 128;  // ID3v1, behind the frames

}  // namespace

void check_adts_frames(ByteView file) {
  std::uint64_t offset = 0;
  while (offset < file.size()) {
    const ByteView rest = file.subspan(offset);
    if (rest.size() == kId3TagBytes && as_text(rest.first(3)) == "TAG") {
      return;
    }
    const bool has_sync = rest.size() >= kAdtsHeaderBytes && is_adts(rest);
    const std::uint64_t size =
        has_sync ? (big_endian_at(rest, 3, 3) >> 5) & 0x1FFF : kAdtsHeaderBytes;
    if (!has_sync || size < kAdtsHeaderBytes || size > rest.size()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("there is no complete ADTS frame at byte {} of {}: the file is "
                              "truncated or damaged",
                              offset, file.size()),
                  {.byte_offset = offset});
    }
    offset += size;
  }
}

bool is_adts(ByteView file) {
  return file.size() >= 2 && (big_endian_at(file, 0, 2) & 0xFFF6) == 0xFFF0;
}

}  // namespace energon
