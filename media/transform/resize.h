// Resizing of images in two passes, rows first.
//
// uint8 pixels are computed in the integers of Pillow's Image.resize(), also between the passes,
// and are equal to the results of Pillow 11 on every processor. Pillow 13 takes columns first where
// the height shrinks by much more than the width: up to 1 level differs. Pillow multiplies RGBA and
// LA by alpha before and divides after; that is left to the caller. float32 pixels are summed in
// double and are the same on every processor. torch's interpolate differs by at most 1 level of
// uint8, and by 1e-5 for float32 of up to 1.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "media/transform/filter_table.h"
#include "media/transform/pixels.h"

namespace energon {

struct ResizeOptions {
  ResizeFilter filter = ResizeFilter::kBilinear;
  /// Stretches the filter where the image shrinks. Pillow always does.
  bool antialias = true;
  bool flip_horizontal = false;  ///< mirrors the result, left to right; costs nothing
  bool flip_vertical = false;    ///< the same, top to bottom
};

/// Keeps tables and memory, so that images of the same sizes allocate nothing. Not thread-safe: one
/// per thread. A copy has tables of its own.
class Resizer {
 public:
  /// Shows `box` of `from` in width * height pixels: writes (height, width, channels) of the dtype
  /// of `from` to `to`. Pixels near `box` but outside of it have an influence as in Pillow; crop()
  /// `from` first where they should not. Throws Error: kInvalidArgument for a view, a size, a
  /// box or room for the result that cannot be; kResourceExhausted if the rows between the passes
  /// have more bytes than DecodeLimits allows by default.
  void resize(const ImageView& from, const FractionalBox& box, std::int64_t width,
              std::int64_t height, const ResizeOptions& options, std::span<std::byte> to);

  /// The whole image.
  void resize(const ImageView& from, std::int64_t width, std::int64_t height,
              const ResizeOptions& options, std::span<std::byte> to);

 private:
  /// The tables of one axis that were used last.
  class Tables {
   public:
    const FilterTable& find(const FilterRequest& request);

   private:
    struct Entry {
      FilterRequest request;
      FilterTable table;
    };
    std::array<Entry, 4> entries_;
    std::size_t next_ = 0;
  };

  void resize_bytes(const ImageView& from, const FilterTable* horizontal,
                    const FilterTable* vertical, std::int64_t width, std::span<std::byte> to);
  void resize_floats(const ImageView& from, const FilterTable& horizontal,
                     const FilterTable& vertical, std::span<std::byte> to);

  Tables horizontal_;
  Tables vertical_;
  std::vector<std::byte> between_;   // rows after the first pass
  std::vector<std::byte> last_row_;  // with room behind it for loads of 16 bytes
  std::vector<float> float_rows_;
};

}  // namespace energon
