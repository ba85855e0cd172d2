#include "media/av/av_container.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

// --- MP4 ---

namespace {

struct Mp4Box {
  std::string_view type;
  std::uint64_t offset = 0;  // in the file
  ByteView body = {};
};

// Iterates over the boxes of one level.
class Mp4Boxes {
 public:
  Mp4Boxes(ByteView bytes, std::uint64_t offset) : bytes_(bytes), offset_(offset) {}

  std::optional<Mp4Box> next();

 private:
  [[noreturn]] void throw_incomplete(std::string_view type, std::uint64_t size) const {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the box '{}' should have {} bytes, but {} are left: the file is "
                            "truncated or damaged",
                            printable(type), size, bytes_.size()),
                {.byte_offset = offset_});
  }

  ByteView bytes_;
  std::uint64_t offset_;
};

std::optional<Mp4Box> Mp4Boxes::next() {
  if (bytes_.empty()) {
    return std::nullopt;
  }
  if (bytes_.size() < 8) {
    // QuickTime ends lists of boxes with four zero bytes.
    if (std::ranges::all_of(bytes_, [](std::byte byte) { return byte == std::byte{0}; })) {
      return std::nullopt;
    }
    throw_incomplete("?", 8);
  }
  const std::string_view type = as_text(bytes_.subspan(4, 4));
  std::uint64_t size = big_endian_at(bytes_, 0, 4);
  std::uint64_t header = 8;
  if (size == 1) {
    header = 16;
    size = bytes_.size() < header ? header : big_endian_at(bytes_, 8, 8);
  } else if (size == 0) {
    size = bytes_.size();  // up to the end
  }
  if (size < header || size > bytes_.size()) {
    throw_incomplete(type, size);
  }
  const Mp4Box box = {type, offset_, bytes_.subspan(header, size - header)};
  bytes_ = bytes_.subspan(size);
  offset_ += size;
  return box;
}

// The tables of a track that determine the number of its samples.
struct TrackTables {
  std::uint64_t samples = 0;  // stsz
  std::uint64_t chunks = 0;   // stco, co64
  std::uint64_t edits = 1;    // elst
  ByteView chunk_runs = {};   // stsc: 12 bytes each
};

std::uint64_t capped_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

// An upper bound, as if every chunk had as many samples as the largest.
std::uint64_t samples_in_chunks(const TrackTables& tables) {
  std::uint64_t largest = 0;
  for (std::uint64_t run = 0; run < tables.chunk_runs.size() / 12; ++run) {
    largest = std::max(largest, big_endian_at(tables.chunk_runs, 12 * run + 4, 4));
  }
  return capped_product(tables.chunks, largest);
}

void check_track(const TrackTables& tables, std::uint64_t offset, std::uint64_t file_size) {
  const std::uint64_t limit = 16 * file_size + 65536;
  const std::uint64_t samples =
      capped_product(std::max(tables.samples, samples_in_chunks(tables)), tables.edits);
  if (samples > limit) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the track declares {} samples; a file of {} bytes can have at most "
                            "{}",
                            samples, file_size, limit),
                {.byte_offset = offset});
  }
}

bool has_boxes(std::string_view type) {
  return type == "moov" || type == "trak" || type == "mdia" || type == "minf" || type == "stbl" ||
         type == "edts";
}

void read_table(const Mp4Box& box, TrackTables& tables) {
  const std::uint64_t count = box.body.size() < 8 ? 0 : big_endian_at(box.body, 4, 4);
  if (box.type == "stsz" && box.body.size() >= 12) {
    tables.samples = std::max(tables.samples, big_endian_at(box.body, 8, 4));
  } else if (box.type == "stco" || box.type == "co64") {
    tables.chunks = std::max(tables.chunks, count);
  } else if (box.type == "elst") {
    tables.edits = std::max(tables.edits, count);
  } else if (box.type == "stsc" && box.body.size() >= 8) {
    const std::uint64_t bytes = std::min<std::uint64_t>(12 * count, box.body.size() - 8);
    tables.chunk_runs = box.body.subspan(8, bytes);
  }
}

// Recursion is bounded: only the six types of has_boxes() are entered, at most `depth` levels.
void read_track_boxes(const Mp4Box& parent, int depth, std::uint64_t file_size,
                      TrackTables& tables) {
  Mp4Boxes boxes(parent.body, parent.offset);
  while (const std::optional<Mp4Box> box = boxes.next()) {
    if (box->type == "cmov") {
      throw Error(ErrorCode::kUnsupported, "the moov box is compressed: remux the file",
                  {.byte_offset = box->offset});
    }
    if (box->type == "trak") {
      TrackTables track;
      read_track_boxes(*box, depth - 1, file_size, track);
      check_track(track, box->offset, file_size);
    } else if (has_boxes(box->type) && depth > 0) {
      read_track_boxes(*box, depth - 1, file_size, tables);
    } else {
      read_table(*box, tables);
    }
  }
}

/// Checks MP4: boxes are complete, there is a moov box, and tables declare at most 16 samples per
/// byte of the file. Throws Error: kCorruptData; kUnsupported for a compressed moov box.
void check_mp4_boxes(ByteView file) {
  bool has_moov = false;
  Mp4Boxes boxes(file, 0);
  while (const std::optional<Mp4Box> box = boxes.next()) {
    if (box->type == "moov") {
      has_moov = true;
      TrackTables tables;
      read_track_boxes(*box, 8, file.size(), tables);
    }
  }
  if (!has_moov) {
    throw Error(ErrorCode::kCorruptData,
                "there is no moov box: the recording was not finished, or the file is damaged");
  }
}

}  // namespace

// --- Ogg ---

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

// CRC-32 of RFC 3533, with zeros in place of the checksum.
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

// The size in bytes of the page at the beginning of `rest`; 0 if it is incomplete.
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

/// Checks Ogg: pages are contiguous and have correct checksums, and every stream ends with a last
/// page. Throws Error (kCorruptData).
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
      fail(offset, "the last Ogg page is incomplete: the file is truncated or damaged");
    }
    const ByteView page = rest.first(size);
    if (as_text(page.first(4)) != "OggS" ||
        ogg_checksum(page) != little_endian_of(page.subspan(kOggChecksumOffset, 4))) {
      fail(offset,
           fmt::format("the Ogg page of {} bytes does not match its checksum {:#010x}: it is "
                       "damaged",
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

}  // namespace

// --- ADTS ---

namespace {

constexpr std::uint64_t kAdtsHeaderBytes = 7;
constexpr std::uint64_t kId3TagBytes = 128;  // ID3v1, after the frames

/// True if `file` begins with the header of an ADTS frame.
bool is_adts(ByteView file) {
  return file.size() >= 2 && (big_endian_at(file, 0, 2) & 0xFFF6) == 0xFFF0;
}

/// Checks ADTS: frames are contiguous up to the end. Throws Error (kCorruptData).
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

}  // namespace

// --- Matroska, RIFF and FLV ---

namespace {

[[noreturn]] void throw_truncated(const char* what, std::uint64_t begin, std::uint64_t end,
                                  std::uint64_t size) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("the {} at byte {} should end at byte {}, but the file has {} bytes: it is "
                  "truncated",
                  what, begin, end, size),
      {.byte_offset = begin});
}

// The length of an element: an EBML number with its marker bit.
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
  for (int elements = 0; elements < 16; ++elements) {  // the header, and Voids before the segment
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

// Checks AVI and WAV. Recorders that do not know the length write 0 or all ones.
void check_riff(ByteView file) {
  std::uint64_t offset = 0;
  while (file.size() - offset >= 8 && as_text(file.subspan(offset, 4)) == "RIFF") {
    const std::uint64_t size = little_endian_of(file.subspan(offset + 4, 4));
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

// The file size that the writer stored in the first tag, or 0.
double flv_declared_bytes(ByteView file) {
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
  if (const double declared = flv_declared_bytes(file);
      declared > static_cast<double>(file.size())) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the FLV file should have {} bytes, but has {}: it is truncated",
                            declared, file.size()));
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
    const std::uint64_t declared = big_endian_at(file, offset + size - kBackPointer, 4);
    if (declared != size - kBackPointer || !is_flv_tag(type & 0x1F)) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the FLV tag of type {} and {} bytes, followed by the size {}, is "
                              "damaged",
                              type, size - kBackPointer, declared),
                  {.byte_offset = offset});
    }
    offset += size;
  }
}

}  // namespace

// --- All containers ---

std::uint64_t big_endian_at(ByteView bytes, std::uint64_t offset, int size) {
  std::uint64_t value = 0;
  for (int i = 0; i < size; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[offset + i]);
  }
  return value;
}

AvContainer recognize_av_container(ByteView file) {
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
