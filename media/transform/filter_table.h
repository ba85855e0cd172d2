// Which pixels of a row make which pixel of the resized row, and with which weights.
//
// With antialiasing, the filter is stretched where the image shrinks, and the weights are those of
// Pillow (Resample.c, precompute_coeffs and normalize_coeffs_8bpc), which torch's interpolate with
// antialias=True uses too. Without it, they are those of torch's interpolate with
// align_corners=False.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace energon {

enum class ResizeFilter : std::uint8_t {
  kNearest,   ///< the pixel that covers the centre; torch: nearest-exact
  kBox,       ///< mean of the covered pixels; without antialiasing: kNearest
  kBilinear,  ///< support of 1 pixel
  /// Support of 2 pixels. a = -0.5 with antialiasing, a = -0.75 without, as in torch.
  kBicubic,
};

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
  /// behind the last tap are 0.
  std::vector<std::int16_t> packed;
  /// float32: (to_size, groups * 4), zeros behind the last tap.
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

}  // namespace energon
