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

#include "media/image/image_decoder.h"
#include "media/transform/image_transform.h"

namespace energon {

// --- Filters ---
//
// Which pixels of a row make which pixel of the resized row, and with which weights.
//
// With antialiasing, the filter is stretched where the image shrinks, and the weights are those of
// Pillow (Resample.c, precompute_coeffs and normalize_coeffs_8bpc), which torch's interpolate with
// antialias=True uses too. Without it, they are those of torch's interpolate with
// align_corners=False.

/// One axis of a resize.
struct FilterRequest {
  std::int64_t from_size = 0;  ///< pixels of the source that may be used
  double begin = 0;            ///< where the part that is shown begins in the source
  double length = 0;           ///< how much of the source is shown
  std::int64_t to_size = 0;    ///< pixels of the result
  ResizeFilter filter = ResizeFilter::kBilinear;
  bool antialias = true;
  bool reversed = false;  ///< the result from its end
  bool floating = false;  ///< weights for float32, else for uint8

  bool operator==(const FilterRequest&) const = default;
};

/// The weights of one axis. Only those of the dtype that was requested are there.
struct FilterTable {
  /// Groups of weights have 4 taps.
  static constexpr int kGroupTaps = 4;
  static constexpr int kGroupNumbers = 8;
  /// Weights of uint8 are integers, 2^22 is 1.
  static constexpr int kFractionBits = 22;
  /// A weight w is sent as w >> 11 and w & 2047, so that 16-bit products are exact.
  static constexpr int kLowBits = 11;

  /// Source pixels [first, first + count) of one pixel of the result.
  struct Taps {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };

  std::vector<Taps> taps;
  /// Groups per pixel of the result, the same for all.
  std::int32_t groups = 0;
  /// uint8: (to_size, groups, 8): the upper parts of 4 weights, then their low parts. Weights
  /// after the last tap are 0.
  std::vector<std::int16_t> packed;
  /// float32: (to_size, groups * 4), zeros after the last tap.
  std::vector<float> weights;

  std::vector<double> scratch;

  /// The weight of `tap` among those of one pixel in `packed`.
  static std::int32_t weight(const std::int16_t* packed, std::int32_t tap) {
    const std::int16_t* group = packed + std::ptrdiff_t{tap / kGroupTaps} * kGroupNumbers;
    const std::int32_t high = group[tap % kGroupTaps];
    return high * (1 << kLowBits) + group[tap % kGroupTaps + kGroupTaps];
  }
};

/// Makes the table of `request`, in the memory that `table` has. Requires: sizes are at least 1 and
/// at most kMaxImageSide; begin >= 0, length > 0, begin + length <= from_size.
void make_filter_table(const FilterRequest& request, FilterTable& table);

// --- Resizing ---

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
  std::vector<std::byte> last_row_;  // with room after it for loads of 16 bytes
  std::vector<float> float_rows_;
};

}  // namespace energon
