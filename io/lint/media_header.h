// Reads headers of images and audio from their first bytes. Nothing is decoded.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon {

struct MediaHeader {
  std::string_view format;        ///< "JPEG image"
  std::uint32_t width = 0;        ///< pixels; 0 for audio
  std::uint32_t height = 0;       ///< pixels
  std::uint32_t channels = 0;     ///< 0 if unknown
  std::uint32_t sample_rate = 0;  ///< audio only, in Hz
  double seconds = 0;             ///< audio only
};

/// The header of a JPEG, PNG, GIF, WebP, BMP or WAV file. Nullopt for other files, for damaged
/// ones, and if the header extends past `beginning`.
std::optional<MediaHeader> read_media_header(ByteView beginning);

/// Whether a file with this extension ("jpg", lower case) should be in one of these formats.
bool promises_media(std::string_view extension);

/// The problem with the beginning of a file of `size` bytes with this extension; the content may be
/// in another of these formats. Nullopt if the file looks valid, or its header extends past
/// `beginning`.
std::optional<std::string> media_problem(std::string_view extension, ByteView beginning,
                                         std::uint64_t size);

}  // namespace energon
