// Draws images through an affine map: rotation, shear and scaling together. Internal to
// media/transform.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/transform/affine.h"
#include "media/transform/pixels.h"

namespace energon {

enum class WarpFilter : std::uint8_t {
  kNearest,   ///< the pixel that covers the point
  kBilinear,  ///< interpolates the four pixels around the point
};

struct WarpOptions {
  WarpFilter filter = WarpFilter::kBilinear;
  /// The color around the source. With kBilinear, it blends with the pixels at the border.
  FillColor fill = {};
};

/// Writes (height, width, channels) of the dtype of `from` to `to`: each pixel is that at
/// map(center of the pixel) in `from`. Does not antialias: shrink with Resizer first.
///
/// uint8 is computed in integers, with points to 1 / 1024 of a pixel; float32 in double. torch's
/// grid_sample(align_corners=False, padding_mode="zeros"), which torchvision uses, differs by at
/// most 1 level if the fill is 0. With other fill colors, its bilinear filter weighs pixels at the
/// border twice; this function does not. Maps with is_exact() copy pixels.
///
/// Throws Error (kInvalidArgument) for an invalid view, size or map, or if `to` has the wrong size.
/// Thread-safe.
void warp_affine(const ImageView& from, const AffineMatrix& map, std::int64_t width,
                 std::int64_t height, const WarpOptions& options, std::span<std::byte> to);

}  // namespace energon
