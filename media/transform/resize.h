// Resizes images in two passes, rows first. Internal to media/transform.
//
// uint8 pixels are computed with the integers of Pillow's Image.resize(), also between the passes,
// and equal the results of Pillow 11 on every processor. Pillow 13 resizes columns first if the
// height shrinks by much more than the width, which differs by up to 1 level. Pillow multiplies
// RGBA and LA by alpha before, and divides after; here, that is left to the caller. float32 pixels
// are summed in double and are the same on every processor. torch's interpolate differs by at most
// 1 level for uint8, and by 1e-5 for float32 of up to 1.

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
// A filter defines which pixels of a row contribute to which pixel of the resized row, and with
// which weights.
//
// With antialiasing, the filter is stretched where the image shrinks, and the weights are those of
// Pillow (Resample.c, precompute_coeffs and normalize_coeffs_8bpc), as in torch's interpolate with
// antialias=True. Without it, they are those of torch's interpolate with align_corners=False.

/// One axis of a resize.
struct FilterRequest {
  std::int64_t from_size = 0;  ///< pixels of the source that may be used
  double begin = 0;            ///< begin of the shown part of the source
  double length = 0;           ///< length of the shown part
  std::int64_t to_size = 0;    ///< pixels of the result
  ResizeFilter filter = ResizeFilter::kBilinear;
  bool antialias = true;
  bool reversed = false;  ///< mirrors the result
  bool floating = false;  ///< weights for float32, else for uint8

  bool operator==(const FilterRequest&) const = default;
};

/// The weights of one axis. Contains only those of the requested dtype.
struct FilterTable {
  /// Groups of weights have 4 taps.
  static constexpr int kGroupTaps = 4;
  static constexpr int kGroupNumbers = 8;
  /// Weights for uint8 are integers; 2^22 stands for 1.
  static constexpr int kFractionBits = 22;
  /// A weight w is split into w >> 11 and w & 2047, so that 16-bit products are exact.
  static constexpr int kLowBits = 11;

  /// Source pixels [first, first + count) of one pixel of the result.
  struct Taps {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };

  std::vector<Taps> taps;
  /// Groups per pixel of the result, the same for all pixels.
  std::int32_t groups = 0;
  /// For uint8: (to_size, groups, 8), the high parts of 4 weights, then their low parts. Weights
  /// after the last tap are 0.
  std::vector<std::int16_t> packed;
  /// For float32: (to_size, groups * 4), with zeros after the last tap.
  std::vector<float> weights;

  std::vector<double> scratch;

  /// The weight of `tap`, where `packed` contains the weights of one pixel.
  static std::int32_t weight(const std::int16_t* packed, std::int32_t tap) {
    const std::int16_t* group = packed + std::ptrdiff_t{tap / kGroupTaps} * kGroupNumbers;
    const std::int32_t high = group[tap % kGroupTaps];
    return high * (1 << kLowBits) + group[tap % kGroupTaps + kGroupTaps];
  }
};

/// Computes the table of `request`, reusing the memory of `table`. Requires: sizes are in
/// [1, kMaxImageSide]; begin >= 0, length > 0, begin + length <= from_size.
void make_filter_table(const FilterRequest& request, FilterTable& table);

// --- Resizing ---

struct ResizeOptions {
  ResizeFilter filter = ResizeFilter::kBilinear;
  /// Stretches the filter where the image shrinks, as Pillow always does.
  bool antialias = true;
  bool flip_horizontal = false;  ///< mirrors the result left to right, at no cost
  bool flip_vertical = false;    ///< mirrors the result top to bottom, at no cost
};

/// Keeps tables and memory, so that images of the same sizes need no allocation. Not thread-safe:
/// use one per thread. A copy has its own tables.
class Resizer {
 public:
  /// Resizes `box` of `from` to width * height pixels: writes (height, width, channels) of the
  /// dtype of `from` to `to`. Pixels near `box` but outside it contribute, as in Pillow; to avoid
  /// that, crop() `from` first. Throws Error: kInvalidArgument for an invalid view, size or box, or
  /// if `to` has the wrong size; kResourceExhausted if the rows between the passes have more bytes
  /// than DecodeLimits allows by default.
  void resize(const ImageView& from, const FractionalBox& box, std::int64_t width,
              std::int64_t height, const ResizeOptions& options, std::span<std::byte> to);

  /// Resizes the whole image.
  void resize(const ImageView& from, std::int64_t width, std::int64_t height,
              const ResizeOptions& options, std::span<std::byte> to);

 private:
  /// The last used tables of one axis.
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
  std::vector<std::byte> last_row_;  // followed by padding for loads of 16 bytes
  std::vector<float> float_rows_;
};

}  // namespace energon
