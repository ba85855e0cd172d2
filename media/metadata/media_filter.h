// Applies a MediaFilter to the name and the first bytes of a part or file. Internal to
// media/metadata.

#pragma once

#include <optional>
#include <string_view>

#include "io/bytes.h"
#include "io/index/media_metadata.h"
#include "media/metadata/add_media_metadata.h"

namespace energon {

/// Throws Error (kInvalidArgument) if patterns are missing, empty, or given for another strategy.
void validate(const MediaFilter& filter);

/// By the extension, in lower or upper case; nullopt if it is not one of images, sound or video.
std::optional<MediaKind> media_kind_of_name(std::string_view name);

/// By the first bytes, of which 64 are enough. Also recognizes images of unsupported formats, such
/// as BMP.
std::optional<MediaKind> media_kind_of_bytes(ByteView beginning);

/// Whether the filter needs to look at the bytes of `name`: "key.part" or the path of a file.
/// Thread-safe.
bool may_be_media(const MediaFilter& filter, std::string_view name);

/// The kind that the filter assigns to the part; nullopt if it rejects the part. Thread-safe.
std::optional<MediaKind> media_kind_of(const MediaFilter& filter, std::string_view name,
                                       ByteView beginning);

/// Whether all of `name` matches a pattern (MediaFilter::patterns). Both are UTF-8; an invalid byte
/// counts as one character. Takes time proportional to the product of the lengths at most.
/// Thread-safe.
bool fits_pattern(std::string_view name, std::string_view pattern);

}  // namespace energon
