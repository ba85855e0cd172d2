#include "media/av/av_container.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

std::uint64_t little_endian_32_at(ByteView bytes, std::uint64_t offset) {
  std::uint64_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[offset + i]);
  }
  return value;
}

[[noreturn]] void throw_truncated(const char* what, std::uint64_t begin, std::uint64_t end,
                                  std::uint64_t size) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("the {} at byte {} should end at byte {}, the file has {}: it is truncated", what,
                  begin, end, size),
      {.byte_offset = begin});
}

// An EBML number with its marker bit: the length of an element.
struct EbmlSize {
  std::uint64_t value = 0;
  int bytes = 0;
  bool known = true;
};

EbmlSize ebml_size_at(ByteView file, std::uint64_t offset) {
  const auto first = offset < file.size() ? std::to_integer<unsigned>(file[offset]) : 0U;
  int bytes = 1;
  while (bytes <= 8 && (first & (0x100U >> bytes)) == 0) {
    ++bytes;
  }
  if (bytes > 8 || file.size() - offset < static_cast<std::uint64_t>(bytes)) {
    throw Error(ErrorCode::kCorruptData, "there is no Matroska element size at this byte",
                {.byte_offset = offset});
  }
  const std::uint64_t mask = (std::uint64_t{1} << (7 * bytes)) - 1;
  const std::uint64_t value = big_endian_at(file, offset, bytes) & mask;
  return {.value = value, .bytes = bytes, .known = value != mask};
}

void check_matroska(ByteView file) {
  constexpr std::uint64_t kSegmentId = 0x18538067;
  constexpr std::uint64_t kVoidId = 0xEC;
  std::uint64_t offset = 4;
  EbmlSize size = ebml_size_at(file, offset);
  for (int elements = 0; elements < 16; ++elements) {  // the header, and voids before the segment
    if (size.value > file.size() - offset - size.bytes) {
      throw_truncated("Matroska header", offset, offset + size.bytes + size.value, file.size());
    }
    offset += size.bytes + size.value;
    const bool is_void =
        offset < file.size() && std::to_integer<std::uint64_t>(file[offset]) == kVoidId;
    const int id_bytes = is_void ? 1 : 4;
    if (file.size() - offset < 4) {
      throw_truncated("Matroska segment", offset, offset + 12, file.size());
    }
    const bool is_segment = !is_void && big_endian_at(file, offset, 4) == kSegmentId;
    size = ebml_size_at(file, offset + id_bytes);
    offset += id_bytes;
    if (is_segment) {
      if (size.known && size.value > file.size() - offset - size.bytes) {
        throw_truncated("Matroska segment", offset, offset + size.bytes + size.value, file.size());
      }
      return;
    }
  }
  throw Error(ErrorCode::kCorruptData, "the Matroska file has no segment", {.byte_offset = offset});
}

// AVI and WAV. Recorders that do not know the length write 0 or all ones.
void check_riff(ByteView file) {
  std::uint64_t offset = 0;
  while (file.size() - offset >= 8 && as_text(file.subspan(offset, 4)) == "RIFF") {
    const std::uint64_t size = little_endian_32_at(file, offset + 4);
    if (size == 0 || size == 0xFFFFFFFF) {
      return;
    }
    if (size > file.size() - offset - 8) {
      throw_truncated("RIFF chunk", offset, offset + 8 + size, file.size());
    }
    offset += 8 + size + (size & 1);
    if (offset > file.size()) {
      return;
    }
  }
}

// What the writer noted in the first tag; 0 if it did not.
double flv_told_bytes(ByteView file) {
  constexpr std::string_view kName("filesize\0", 9);  // followed by an AMF number
  const std::string_view begin = as_text(file.first(std::min<std::size_t>(file.size(), 4096)));
  const std::size_t at = begin.find(kName);
  if (at == std::string_view::npos || begin.size() - at < kName.size() + 8) {
    return 0;
  }
  return std::bit_cast<double>(big_endian_at(file, at + kName.size(), 8));
}

bool is_flv_tag(std::uint64_t type) {
  constexpr std::uint64_t kSound = 8;
  constexpr std::uint64_t kVideo = 9;
  constexpr std::uint64_t kScript = 18;
  return type == kSound || type == kVideo || type == kScript;
}

void check_flv(ByteView file) {
  constexpr std::uint64_t kTagHeader = 11;
  constexpr std::uint64_t kBackPointer = 4;
  std::uint64_t offset = file.size() < 9 ? 0 : big_endian_at(file, 5, 4);
  if (offset < 9 || file.size() < kBackPointer || offset > file.size() - kBackPointer) {
    throw_truncated("FLV header", 0, offset + kBackPointer, file.size());
  }
  if (const double told = flv_told_bytes(file); told > static_cast<double>(file.size())) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the FLV file says that it has {} bytes, it has {}: it is truncated",
                            told, file.size()));
  }
  offset += kBackPointer;
  while (offset < file.size()) {
    const std::uint64_t left = file.size() - offset;
    const std::uint64_t size =
        kTagHeader + kBackPointer + (left < kTagHeader ? 0 : big_endian_at(file, offset + 1, 3));
    if (size > left) {
      throw_truncated("FLV tag", offset, offset + size, file.size());
    }
    const std::uint64_t type = big_endian_at(file, offset, 1);
    const std::uint64_t told = big_endian_at(file, offset + size - kBackPointer, 4);
    if (told != size - kBackPointer || !is_flv_tag(type & 0x1F)) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the FLV tag of type {} and {} bytes, followed by the size {}, is "
                              "damaged",
                              type, size - kBackPointer, told),
                  {.byte_offset = offset});
    }
    offset += size;
  }
}

}  // namespace

std::uint64_t big_endian_at(ByteView bytes, std::uint64_t offset, int size) {
  std::uint64_t value = 0;
  for (int i = 0; i < size; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[offset + i]);
  }
  return value;
}

AvContainer recognise_av_container(ByteView file) {
  const std::string_view text = as_text(file.first(file.size() < 12 ? 0 : 12));
  const std::string_view box = text.empty() ? text : text.substr(4, 4);
  if (text.starts_with("\x1A\x45\xDF\xA3")) {
    return AvContainer::kMatroska;
  }
  if (text.starts_with("RIFF") && (text.ends_with("AVI ") || text.ends_with("WAVE"))) {
    return AvContainer::kRiff;
  }
  if (text.starts_with("OggS")) {
    return AvContainer::kOgg;
  }
  if (text.starts_with("fLaC")) {
    return AvContainer::kFlac;
  }
  if (text.starts_with("FLV\x01")) {
    return AvContainer::kFlv;
  }
  if (!text.empty() && is_adts(file)) {
    return AvContainer::kAdts;
  }
  for (const char* type : {"ftyp", "moov", "mdat", "wide", "free", "skip", "pnot"}) {
    if (box == type) {
      return AvContainer::kMp4;
    }
  }
  return AvContainer::kOther;
}

void check_av_container(AvContainer container, ByteView file) {
  switch (container) {
    case AvContainer::kMp4:
      return check_mp4_boxes(file);
    case AvContainer::kMatroska:
      return check_matroska(file);
    case AvContainer::kRiff:
      return check_riff(file);
    case AvContainer::kOgg:
      return check_ogg_pages(file);
    case AvContainer::kFlv:
      return check_flv(file);
    case AvContainer::kAdts:
      return check_adts_frames(file);
    case AvContainer::kFlac:
    case AvContainer::kOther:
      return;
  }
}

}  // namespace energon
