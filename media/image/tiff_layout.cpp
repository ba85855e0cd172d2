#include "media/image/tiff_layout.h"

#include <algorithm>

#include <fmt/format.h>

namespace energon {
namespace {

// True: the first of the samples behind the colours is alpha, multiplied in or not.
bool has_alpha_sample(TiffFile& file) {
  std::uint16_t count = 0;
  const std::uint16_t* kinds = nullptr;
  return TIFFGetField(file.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) == 1 && count > 0 &&
         (kinds[0] == EXTRASAMPLE_ASSOCALPHA || kinds[0] == EXTRASAMPLE_UNASSALPHA);
}

bool is_plain(TiffFile& file, const TiffLayout& layout, std::uint16_t photometric) {
  const std::uint16_t kind = file.u16(TIFFTAG_SAMPLEFORMAT);
  if (kind != SAMPLEFORMAT_UINT && kind != SAMPLEFORMAT_VOID) {
    return false;
  }
  const bool narrow = layout.bits == 1 || layout.bits == 2 || layout.bits == 4;
  const bool wide = layout.bits == 8 || layout.bits == 16;
  switch (photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
      return wide || (narrow && layout.samples_per_pixel == 1);
    case PHOTOMETRIC_PALETTE:
      return layout.samples_per_pixel == 1 && (narrow || layout.bits == 8);
    case PHOTOMETRIC_RGB:
      return wide && layout.samples_per_pixel >= 3;
    default:
      return false;
  }
}

std::uint16_t effective_photometric(TiffFile& file) {
  std::uint16_t photometric = 0;
  if (TIFFGetField(file.get(), TIFFTAG_PHOTOMETRIC, &photometric) != 1) {
    throw Error(ErrorCode::kCorruptData,
                "the TIFF does not say what its samples are (tag PhotometricInterpretation)");
  }
  if (photometric == PHOTOMETRIC_YCBCR && file.u16(TIFFTAG_COMPRESSION) == COMPRESSION_JPEG) {
    TIFFSetField(file.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    return PHOTOMETRIC_RGB;
  }
  return photometric;
}

void check_convertible(TiffFile& file) {
  char reason[1024] = "";
  if (TIFFRGBAImageOK(file.get(), reason) != 1) {
    reason[sizeof(reason) - 1] = '\0';
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the TIFF is of a kind that is not read: {}", printable(reason)));
  }
}

}  // namespace

TiffLayout tiff_layout(TiffFile& file) {
  const std::uint16_t photometric = effective_photometric(file);
  if (TIFFIsCODECConfigured(file.u16(TIFFTAG_COMPRESSION)) != 1) {
    throw Error(ErrorCode::kUnsupported, fmt::format("the TIFF has compression {}, which this "
                                                     "libtiff does not have",
                                                     file.u16(TIFFTAG_COMPRESSION)));
  }
  TiffLayout layout;
  layout.bits = file.u16(TIFFTAG_BITSPERSAMPLE);
  layout.samples_per_pixel = file.u16(TIFFTAG_SAMPLESPERPIXEL);
  layout.separate = file.u16(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE;
  layout.palette = photometric == PHOTOMETRIC_PALETTE;
  layout.inverted = photometric == PHOTOMETRIC_MINISWHITE;
  layout.plain = is_plain(file, layout, photometric);
  const bool gray = photometric == PHOTOMETRIC_MINISBLACK || layout.inverted;
  const int colors = gray ? 1 : 3;
  const bool alpha = has_alpha_sample(file) && layout.samples_per_pixel > colors;
  layout.channels = colors + (alpha ? 1 : 0);
  if (!layout.plain) {
    check_convertible(file);
  }
  return layout;
}

// Maps of old writers have 8 bits, not 16.
TiffPalette tiff_palette(TiffFile& file, int bits) {
  const std::uint16_t* map[3] = {};
  if (TIFFGetField(file.get(), TIFFTAG_COLORMAP, &map[0], &map[1], &map[2]) != 1) {
    throw Error(ErrorCode::kCorruptData, "the TIFF has a palette without colours (tag ColorMap)");
  }
  const std::size_t entries = std::size_t{1} << static_cast<unsigned>(bits);
  bool wide = false;
  for (const std::uint16_t* colors : map) {
    wide = wide || std::any_of(colors, colors + entries, [](int value) { return value > 255; });
  }
  TiffPalette palette = {};
  for (std::size_t i = 0; i < entries; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      palette[i][channel] = static_cast<std::uint8_t>(map[channel][i] >> (wide ? 8U : 0U));
    }
  }
  return palette;
}

void unpack_tiff_samples(const std::byte* line, std::int64_t width, int bits, bool palette,
                         std::uint8_t* to) {
  const unsigned most = (1U << static_cast<unsigned>(bits)) - 1;
  const unsigned factor = palette ? 1 : 255 / most;
  const int in_byte = 8 / bits;
  for (std::int64_t x = 0; x < width; ++x) {
    const auto byte = std::to_integer<unsigned>(line[x / in_byte]);
    const auto shift = static_cast<unsigned>(8 - bits - static_cast<int>(x % in_byte) * bits);
    to[x] = static_cast<std::uint8_t>(((byte >> shift) & most) * factor);
  }
}

}  // namespace energon
