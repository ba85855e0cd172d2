#include <array>
#include <cstdint>
#include <map>
#include <string>

#include <fmt/format.h>

#include "io/error.h"
#include "media/av/av_container.h"

namespace energon {
namespace {

constexpr std::uint64_t kOggHeaderBytes = 27;
constexpr std::uint64_t kOggChecksumOffset = 22;

constexpr std::array<std::uint32_t, 256> ogg_checksum_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i << 24;
    for (int bit = 0; bit < 8; ++bit) {
      value = value << 1 ^ ((value >> 31) != 0 ? 0x04c11db7U : 0U);
    }
    table[i] = value;
  }
  return table;
}

// CRC-32 of RFC 3533, with the checksum's own bytes taken as 0.
std::uint32_t ogg_checksum(ByteView page) {
  static constexpr std::array<std::uint32_t, 256> kTable = ogg_checksum_table();
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < page.size(); ++i) {
    const bool own = i >= kOggChecksumOffset && i < kOggChecksumOffset + 4;
    value = value << 8 ^ kTable[value >> 24 ^ (own ? 0U : std::to_integer<std::uint32_t>(page[i]))];
  }
  return value;
}

std::uint32_t little_endian_of(ByteView four) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = value << 8 | std::to_integer<std::uint32_t>(four[i]);
  }
  return value;
}

// Bytes of the page that begins `rest`; 0 if it is not complete.
std::uint64_t ogg_page_bytes(ByteView rest) {
  if (rest.size() < kOggHeaderBytes) {
    return 0;
  }
  const auto segments = std::to_integer<std::uint64_t>(rest[kOggHeaderBytes - 1]);
  std::uint64_t size = kOggHeaderBytes + segments;
  for (std::uint64_t i = 0; i < segments && size <= rest.size(); ++i) {
    size += std::to_integer<std::uint64_t>(rest[kOggHeaderBytes + i]);
  }
  return size <= rest.size() ? size : 0;
}

}  // namespace

void check_ogg_pages(ByteView file) {
  const auto fail = [](std::uint64_t offset, std::string message) {
    throw Error(ErrorCode::kCorruptData, std::move(message), {.byte_offset = offset});
  };
  std::map<std::uint32_t, bool> stream_ended;  // by serial number
  std::uint64_t offset = 0;
  while (offset < file.size()) {
    const ByteView rest = file.subspan(offset);
    const std::uint64_t size = ogg_page_bytes(rest);
    if (size == 0) {
      fail(offset, "the last Ogg page is not complete: the file is truncated or damaged");
    }
    const ByteView page = rest.first(size);
    if (as_text(page.first(4)) != "OggS" ||
        ogg_checksum(page) != little_endian_of(page.subspan(kOggChecksumOffset, 4))) {
      fail(offset, fmt::format("the Ogg page of {} bytes has not the checksum {:#010x} it should "
                               "have: it is damaged",
                               size, little_endian_of(page.subspan(kOggChecksumOffset, 4))));
    }
    stream_ended[little_endian_of(page.subspan(14, 4))] =
        (std::to_integer<unsigned>(page[5]) & 4U) != 0;
    offset += size;
  }
  for (const auto& [serial, ended] : stream_ended) {
    if (!ended) {
      fail(offset, fmt::format("the Ogg stream {:#x} has no last page: the file is truncated, or "
                               "its writer did not finish",
                               serial));
    }
  }
}

}  // namespace energon
