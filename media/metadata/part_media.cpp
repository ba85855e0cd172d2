#include "media/metadata/part_media.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/error.h"
#include "io/index/part_place.h"
#include "io/index/read_bytes.h"
#include "media/metadata/av_file_metadata.h"
#include "media/metadata/image_metadata.h"

namespace energon {
namespace {

// The headers of most images end before this byte.
constexpr std::uint64_t kBeginningBytes = std::uint64_t{1} << 15;

// A fault of the medium, not of the system or of this library.
bool is_of_medium(ErrorCode code) {
  return code == ErrorCode::kCorruptData || code == ErrorCode::kUnsupported ||
         code == ErrorCode::kResourceExhausted;
}

}  // namespace

MediaMetadata read_media_metadata(MediaKind kind, ByteView file, const DecodeLimits& limits) {
  return kind == MediaKind::kImage ? read_image_metadata(file, limits)
                                   : read_av_file_metadata(file, limits);
}

SharedBytes PartMediaReader::read_range(const ByteRange& range) {
  bytes_read_ += range.size;
  return read_bytes(tar_, range);
}

// Reads the rest of the part if the beginning is not enough. Bytes that cannot be read are not the
// medium's fault, and pass.
MediaMetadata PartMediaReader::decode(MediaKind kind, const PartLocation& part,
                                      ByteView beginning) {
  const bool is_whole = beginning.size() == part.content.size;
  if (is_whole) {
    return read_media_metadata(kind, beginning, options_.limits);
  }
  if (kind == MediaKind::kImage) {
    try {
      return read_image_metadata(beginning, options_.limits);
    } catch (const Error& error) {
      if (!is_of_medium(error.code())) {
        throw;
      }
    }
  }
  if (part.content.size > options_.max_part_bytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("it has {} bytes, more than max_part_bytes, {}", part.content.size,
                            options_.max_part_bytes));
  }
  const SharedBytes whole = read_range(part.content);
  return read_media_metadata(kind, whole.view, options_.limits);
}

PartMedia PartMediaReader::read(std::string_view name, const PartLocation& part) {
  if (!may_be_media(filter_, name)) {
    return std::monostate();
  }
  check_part_range(part, tar_);
  const std::uint64_t size = std::min(part.content.size, kBeginningBytes);
  const SharedBytes bytes =
      read_range({.offset = part.content.offset - kTarBlockBytes, .size = size + kTarBlockBytes});
  check_part_place(TarBlock(bytes.view.first(kTarBlockBytes)), name, part, tar_, index_);
  const ByteView beginning = bytes.view.subspan(kTarBlockBytes);
  const std::optional<MediaKind> kind = media_kind_of(filter_, name, beginning);
  if (!kind) {
    return std::monostate();
  }
  try {
    return decode(*kind, part, beginning);
  } catch (const Error& error) {
    const bool is_of_tar = error.context().path.has_value();
    if (is_of_tar || !is_of_medium(error.code())) {
      throw;
    }
    return error.what();
  }
}

}  // namespace energon
