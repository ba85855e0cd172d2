#include "media/metadata/part_media.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/part_place.h"
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

SharedBytes MediaReader::read_range(const FileSource& file, const ByteRange& range) {
  bytes_read_ += range.size;
  return read_bytes(file, range);
}

// Reads all of the content if the beginning is not enough. Bytes that cannot be read are not the
// medium's fault, and pass.
MediaMetadata MediaReader::decode(MediaKind kind, const FileSource& file, const ByteRange& content,
                                  ByteView beginning) {
  const bool is_whole = beginning.size() == content.size;
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
  if (content.size > options_.max_part_bytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("it has {} bytes, more than max_part_bytes, {}", content.size,
                            options_.max_part_bytes));
  }
  const SharedBytes whole = read_range(file, content);
  return read_media_metadata(kind, whole.view, options_.limits);
}

PartMedia MediaReader::tell(std::string_view name, const FileSource& file, const ByteRange& content,
                            ByteView beginning) {
  const std::optional<MediaKind> kind = media_kind_of(filter_, name, beginning);
  if (!kind) {
    return std::monostate();
  }
  try {
    return decode(*kind, file, content, beginning);
  } catch (const Error& error) {
    const bool is_of_file = error.context().path.has_value();
    if (is_of_file || !is_of_medium(error.code())) {
      throw;
    }
    return error.what();
  }
}

PartMedia MediaReader::read_part(std::string_view name, const PartLocation& part,
                                 const FileSource& tar, const SampleIndex& index) {
  if (!may_be_media(filter_, name)) {
    return std::monostate();
  }
  check_part_range(part, tar);
  const std::uint64_t size = std::min(part.content.size, kBeginningBytes);
  const SharedBytes bytes = read_range(
      tar, {.offset = part.content.offset - kTarBlockBytes, .size = size + kTarBlockBytes});
  check_part_place(TarBlock(bytes.view.first(kTarBlockBytes)), name, part, tar, index);
  return tell(name, tar, part.content, bytes.view.subspan(kTarBlockBytes));
}

PartMedia MediaReader::read_file(std::string_view name, const std::string& path) {
  if (!may_be_media(filter_, name)) {
    return std::monostate();
  }
  try {
    const FileSource file(path);
    const ByteRange content{.offset = 0, .size = file.size()};
    const SharedBytes beginning =
        read_range(file, {.offset = 0, .size = std::min(content.size, kBeginningBytes)});
    return tell(name, file, content, beginning.view);
  } catch (const Error& error) {
    // It may be a link that leads nowhere, or have been removed or cut meanwhile.
    if (error.code() != ErrorCode::kNotFound && error.code() != ErrorCode::kCorruptData) {
      throw;
    }
    return error.message();
  }
}

}  // namespace energon
