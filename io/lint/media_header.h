// What the first bytes of pictures and sounds say. Nothing is decoded.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon {

struct MediaHeader {
  std::string_view format;        ///< "JPEG image"
  std::uint32_t width = 0;        ///< pixels; 0: a sound
  std::uint32_t height = 0;       ///< pixels
  std::uint32_t channels = 0;     ///< 0: not told
  std::uint32_t sample_rate = 0;  ///< of a sound, in Hz
  double seconds = 0;             ///< of a sound
};

/// Of JPEG, PNG, GIF, WebP, BMP and WAV files; nothing for others, for damaged ones, and if the
/// header goes on behind `beginning`.
std::optional<MediaHeader> read_media_header(ByteView beginning);

/// Whether a file with this extension ("jpg", in lower case) should be of one of these formats.
bool promises_media(std::string_view extension);

/// What is wrong with the beginning of a file of `size` bytes with such an extension, which may
/// hold another of these formats. Nothing: it looks right, or its header goes on behind
/// `beginning`.
std::optional<std::string> media_problem(std::string_view extension, ByteView beginning,
                                         std::uint64_t size);

}  // namespace energon
