// Images through an affine map: rotation, shear, and scaling together.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/transform/affine.h"
#include "media/transform/pixels.h"

namespace energon {

enum class WarpFilter : std::uint8_t {
  kNearest,   ///< the pixel that covers the point
  kBilinear,  ///< between the four pixels around the point
};

struct WarpOptions {
  WarpFilter filter = WarpFilter::kBilinear;
  /// What is around the source. With kBilinear, it blends with the pixels of the border.
  FillColor fill = {};
};

/// Writes (height, width, channels) of the dtype of `from` to `to`: each pixel is that at
/// map(center of the pixel) in `from`. Nothing is done against aliasing: shrink with Resizer
/// before.
///
/// uint8 is computed in integers, with points to 1 / 1024 of a pixel; float32 in double. torch's
/// grid_sample(align_corners=False, padding_mode="zeros"), which torchvision uses, differs by at
/// most 1 level if the fill is 0. Its bilinear fill of other colors weighs pixels of the border
/// twice; ours does not. Maps for which is_exact() copy pixels.
///
/// Throws Error (kInvalidArgument): a view, a size, a map or room for the result that cannot be.
/// Thread-safe.
void warp_affine(const ImageView& from, const AffineMatrix& map, std::int64_t width,
                 std::int64_t height, const WarpOptions& options, std::span<std::byte> to);

}  // namespace energon
