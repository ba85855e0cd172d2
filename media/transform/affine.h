// Affine maps of the plane, and consecutive geometric steps as one resampling of the source.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "media/transform/pixels.h"
#include "media/transform/resize.h"

namespace energon {

// --- Maps ---

/// An affine map of the plane, which says where in the source the pixels of a result come from:
/// (x, y) -> (a x + b y + c, d x + e y + f), from a point of the result to one of the source. The
/// identity by default.
struct AffineMatrix {
  double a = 1, b = 0, c = 0;
  double d = 0, e = 1, f = 0;

  bool operator==(const AffineMatrix&) const = default;
};

/// Where (x, y) goes.
std::array<double, 2> apply(const AffineMatrix& map, double x, double y);

/// First `first`, then `second`.
AffineMatrix compose(const AffineMatrix& first, const AffineMatrix& second);

/// Throws Error (kInvalidArgument) if `map` has none, because it is flat or not finite.
AffineMatrix inverse(const AffineMatrix& map);

AffineMatrix translation(double x, double y);
AffineMatrix scaling(double x, double y);

/// Of a result that shows the source turned by `degrees` counter-clockwise around (x, y), as
/// torchvision and Pillow turn. Multiples of 90 degrees have no rounding errors.
AffineMatrix rotation(double degrees, double x, double y);

/// Whether the pixels of the result are pixels of the source, without any arithmetic: quarter
/// turns, flips and translations by whole pixels.
bool is_exact(const AffineMatrix& map);

// --- Steps ---

/// Consecutive geometric steps as one resampling of the source. A value. Steps apply to the result
/// of those before. Throws Error (kInvalidArgument) for sizes that cannot be.
///
/// Resizes, crops, flips and rotations are collected as one affine map and drawn at once, so that
/// pixels are interpolated once. A result that is a box of the source, whichever way it is flipped
/// or turned by quarters, is resized with antialiasing. Anything else is warped, after the source
/// was shrunk with antialiasing where the result has at least 20 % fewer pixels per length.
class AffineSteps {
 public:
  /// Of a source of this size; without steps, the result is the source.
  AffineSteps(std::int64_t width, std::int64_t height);

  void resize(std::int64_t width, std::int64_t height);
  /// The box may reach beyond the image: there is the fill. Pixels of the source outside of a crop
  /// before any resize or rotation have no influence, as if the crop had been drawn.
  void crop(const PixelBox& box);
  void flip_horizontal();
  void flip_vertical();
  /// Counter-clockwise around the middle; the size stays, corners are filled or cut.
  void rotate(double degrees);

  // The result.

  std::int64_t width() const { return width_; }
  std::int64_t height() const { return height_; }
  /// From the result to the source.
  const AffineMatrix& to_source() const { return to_source_; }
  /// The pixels of the source that may have an influence; without pixels if there are none.
  const PixelBox& clip() const { return clip_; }
  /// The pixels of the source that draw_affine() needs, with those around for the filter. Without
  /// pixels if the result shows only the fill.
  PixelBox needed_box(ResizeFilter filter) const;
  /// Pixels of the source per pixel of the result, along x and y of the source.
  std::array<double, 2> shrink() const;

 private:
  std::int64_t width_;
  std::int64_t height_;
  AffineMatrix to_source_;
  PixelBox clip_;
};

struct AffineOptions {
  ResizeFilter filter = ResizeFilter::kBilinear;  ///< warps are bilinear, or kNearest
  bool antialias = true;
  FillColor fill = {};
};

/// Memory that is used again. Not thread-safe.
struct AffineScratch {
  Resizer resizer;
  std::vector<std::byte> pixels;
};

/// Draws the result of `steps`: (height, width, channels) of the dtype of `view`, to `to`. `view`
/// shows the source, or a part of it, at its size or scaled: `place` is where
/// steps.needed_box(options.filter) lies in it, inside of the view; it is not looked at if that has
/// no pixels. Throws Error (kInvalidArgument).
void draw_affine(const ImageView& view, const FractionalBox& place, const AffineSteps& steps,
                 const AffineOptions& options, AffineScratch& scratch, std::span<std::byte> to);

}  // namespace energon
