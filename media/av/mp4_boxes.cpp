#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "io/error.h"
#include "media/av/av_container.h"

namespace energon {
namespace {

struct Mp4Box {
  std::string_view type;
  std::uint64_t offset = 0;  // in the file
  ByteView body = {};
};

// Boxes of one level, one after another.
class Mp4Boxes {
 public:
  Mp4Boxes(ByteView bytes, std::uint64_t offset) : bytes_(bytes), offset_(offset) {}

  std::optional<Mp4Box> next();

 private:
  [[noreturn]] void throw_incomplete(std::string_view type, std::uint64_t size) const {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the box '{}' says that it has {} bytes, {} are left: the file is "
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

// What the tables of a track say about the number of its samples.
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

// At most: as if every chunk had as many samples as the largest.
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
                fmt::format("the track says that it has {} samples, a file of {} bytes may have {}",
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

// Recursion ends: only the six types of has_boxes() are entered, at most `depth` levels.
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

}  // namespace

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

}  // namespace energon
