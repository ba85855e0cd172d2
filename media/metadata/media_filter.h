// Which parts of a dataset, or files of a folder, are images, sound or video whose metadata is to
// be stored. The strategies and extensions are those of Energon 7.4, and flv.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/index/media_metadata.h"

namespace energon {

enum class MediaStrategy : std::uint8_t {
  kExtension,  ///< by the text after the last dot of the name
  kHeader,     ///< by the first bytes of each part, or else by the name
  kGlob,       ///< those whose name fits a pattern; of which kind they are, as for kHeader
};

/// As in the table media_filters: "EXTENSION", "HEADER", "GLOB".
std::string_view to_string(MediaStrategy strategy);

struct MediaFilter {
  MediaStrategy strategy = MediaStrategy::kExtension;
  /// For kGlob, at least one: patterns of "key.part", or of the path of a file relative to its
  /// folder (fits_pattern()).
  std::vector<std::string> patterns = {};
};

/// The filter of patterns that are separated by commas, such as "*.jpg,*.png".
MediaFilter glob_filter(std::string_view patterns);

/// Throws Error (kInvalidArgument) if patterns are missing, empty, or of another strategy.
void validate(const MediaFilter& filter);

/// By the extension, in lower or upper case; nothing if it is none of images, sound and video.
std::optional<MediaKind> media_kind_of_name(std::string_view name);

/// By the first bytes, of which 64 are enough: also images of formats that are not read, such as
/// BMP.
std::optional<MediaKind> media_kind_of_bytes(ByteView beginning);

/// Whether the filter has to look into `name`, "key.part" or the path of a file. Thread-safe.
bool may_be_media(const MediaFilter& filter, std::string_view name);

/// What the filter takes that part for; nothing: it is not wanted, or no medium. Thread-safe.
std::optional<MediaKind> media_kind_of(const MediaFilter& filter, std::string_view name,
                                       ByteView beginning);

/// Whether all of `name` fits a pattern as Python's fnmatch and Energon have them:
///
///   *        any characters, also none, also dots and slashes
///   ?        one character
///   [a-z_]   one of these
///   [!a-z]   one that is none of these
///
/// A bracket that is not closed stands for itself. Letter case counts.
///
/// Both are UTF-8; a byte that is not counts as one character. Takes time of the product of the
/// lengths at most. Thread-safe.
bool fits_pattern(std::string_view name, std::string_view pattern);

}  // namespace energon
