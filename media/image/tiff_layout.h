// How the samples of a TIFF become gray, RGB and alpha. Internal to media/image.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "media/image/image_info.h"
#include "media/image/tiff_file.h"

namespace energon {

struct TiffLayout {
  /// False: a kind that only libtiff's conversion to 8-bit RGBA reads, such as CMYK or Lab.
  bool plain = false;
  int channels = 0;       ///< of the result: the first samples of a pixel, or a palette's colours
  int bits = 8;           ///< of a stored sample: 1, 2, 4, 8 or 16
  bool inverted = false;  ///< 0 is white
  bool palette = false;
  int samples_per_pixel = 1;
  bool separate = false;       ///< each sample has tiles of its own
  bool premultiplied = false;  ///< the last channel is alpha, and the colors are multiplied by it
};

/// Throws Error (kUnsupported) for samples that are not unsigned integers, and for what libtiff
/// cannot convert either. Asks libtiff for RGB where a JPEG inside has YCbCr.
TiffLayout tiff_layout(TiffFile& file);

using TiffPalette = std::array<std::array<std::uint8_t, 3>, 256>;

/// The colour map, of 2^bits entries. Throws Error (kCorruptData) if there is none.
TiffPalette tiff_palette(TiffFile& file, int bits);

/// One line of samples of up to 8 bits to bytes, left to right from the highest bit. Gray values
/// are widened to 0..255; indexes of palettes are kept.
void unpack_tiff_samples(const std::byte* line, std::int64_t width, int bits, bool palette,
                         std::uint8_t* to);

}  // namespace energon
