#include "media/image/tiff_layout.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace energon {
namespace {

// What the first sample after the colors means: alpha (multiplied into the colors or not), or
// something else.
std::uint16_t kind_of_extra_sample(TiffFile& file) {
  std::uint16_t count = 0;
  const std::uint16_t* kinds = nullptr;
  const bool has_kinds = TIFFGetField(file.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) == 1;
  return has_kinds && count > 0 ? kinds[0] : EXTRASAMPLE_UNSPECIFIED;
}

std::string_view name_of_sample_format(std::uint16_t format) {
  switch (format) {
    case SAMPLEFORMAT_INT:
      return "signed";
    case SAMPLEFORMAT_IEEEFP:
      return "floating-point";
    case SAMPLEFORMAT_COMPLEXINT:
    case SAMPLEFORMAT_COMPLEXIEEEFP:
      return "complex";
    default:
      return "unknown";
  }
}

// libtiff's conversion would take the bits of signed samples for unsigned ones.
void check_unsigned(TiffFile& file) {
  const std::uint16_t format = file.u16(TIFFTAG_SAMPLEFORMAT);
  if (format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_VOID) {
    return;
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("the TIFF has {} samples of {} bits (tag SampleFormat is {}), expected "
                          "unsigned ones: no level of an image stands for such a number. Store "
                          "the array as .npy, or convert it to unsigned samples",
                          name_of_sample_format(format), file.u16(TIFFTAG_BITSPERSAMPLE), format));
}

bool is_plain(const TiffLayout& layout, std::uint16_t photometric) {
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
  check_unsigned(file);
  TiffLayout layout;
  layout.bits = file.u16(TIFFTAG_BITSPERSAMPLE);
  layout.samples_per_pixel = file.u16(TIFFTAG_SAMPLESPERPIXEL);
  layout.separate = file.u16(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE;
  layout.palette = photometric == PHOTOMETRIC_PALETTE;
  layout.inverted = photometric == PHOTOMETRIC_MINISWHITE;
  layout.plain = is_plain(layout, photometric);
  const bool gray = photometric == PHOTOMETRIC_MINISBLACK || layout.inverted;
  const int colors = gray ? 1 : 3;
  const std::uint16_t extra =
      layout.samples_per_pixel > colors ? kind_of_extra_sample(file) : EXTRASAMPLE_UNSPECIFIED;
  layout.premultiplied = extra == EXTRASAMPLE_ASSOCALPHA;
  const bool alpha = layout.premultiplied || extra == EXTRASAMPLE_UNASSALPHA;
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
