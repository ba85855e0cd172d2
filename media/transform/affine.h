// Affine maps of the plane, and consecutive geometric steps as one resampling of the source.
// Internal to media/transform.

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

/// An affine map of the plane, from a point of the result to the point of the source that it shows:
/// (x, y) -> (a x + b y + c, d x + e y + f). The identity by default.
struct AffineMatrix {
  double a = 1, b = 0, c = 0;
  double d = 0, e = 1, f = 0;

  bool operator==(const AffineMatrix&) const = default;
};

/// The image of (x, y).
std::array<double, 2> apply(const AffineMatrix& map, double x, double y);

/// The map that applies `first`, then `second`.
AffineMatrix compose(const AffineMatrix& first, const AffineMatrix& second);

/// Throws Error (kInvalidArgument) if `map` has no inverse, because it is singular or not finite.
AffineMatrix inverse(const AffineMatrix& map);

AffineMatrix translation(double x, double y);
AffineMatrix scaling(double x, double y);

/// The map of a result that shows the source rotated by `degrees` counter-clockwise around (x, y),
/// as in torchvision and Pillow. Multiples of 90 degrees have no rounding errors.
AffineMatrix rotation(double degrees, double x, double y);

/// Whether all pixels of the result are pixels of the source, without arithmetic: quarter turns,
/// flips and translations by whole pixels.
bool is_exact(const AffineMatrix& map);

// --- Steps ---

/// Consecutive geometric steps as one resampling of the source. A value type. Each step applies to
/// the result of the previous ones. Throws Error (kInvalidArgument) for invalid sizes.
///
/// Resizes, crops, flips and rotations are combined into one affine map and drawn at once, so that
/// pixels are interpolated only once. A result that is a box of the source, flipped or rotated by
/// quarter turns or not, is resized with antialiasing. Any other result is warped, after the source
/// was shrunk with antialiasing where the result has at least 20 % fewer pixels per length.
class AffineSteps {
 public:
  /// Begins with a source of this size. Without steps, the result is the source.
  AffineSteps(std::int64_t width, std::int64_t height);

  void resize(std::int64_t width, std::int64_t height);
  /// The box may extend beyond the image, where the result shows the fill. Pixels of the source
  /// outside a crop before any resize or rotation do not affect the result, as if the crop had been
  /// drawn.
  void crop(const PixelBox& box);
  void flip_horizontal();
  void flip_vertical();
  /// Rotates counter-clockwise around the middle. The size stays; corners are filled or cut off.
  void rotate(double degrees);

  // The result.

  std::int64_t width() const { return width_; }
  std::int64_t height() const { return height_; }
  /// The map from the result to the source.
  const AffineMatrix& to_source() const { return to_source_; }
  /// The pixels of the source that may affect the result; an empty box if there are none.
  const PixelBox& clip() const { return clip_; }
  /// The pixels of the source that draw_affine() needs, including those around them for the filter.
  /// An empty box if the result shows only the fill.
  PixelBox needed_box(ResizeFilter filter) const;
  /// Source pixels per result pixel, along x and y of the source.
  std::array<double, 2> shrink() const;

 private:
  std::int64_t width_;
  std::int64_t height_;
  AffineMatrix to_source_;
  PixelBox clip_;
};

struct AffineOptions {
  ResizeFilter filter = ResizeFilter::kBilinear;  ///< warps use bilinear unless kNearest
  bool antialias = true;
  FillColor fill = {};
};

/// Memory for reuse. Not thread-safe.
struct AffineScratch {
  Resizer resizer;
  std::vector<std::byte> pixels;
};

/// Draws the result of `steps` to `to`: (height, width, channels) of the dtype of `view`. `view`
/// shows the source, or a part of it, in its size or scaled. `place` is the position of
/// steps.needed_box(options.filter) inside the view; it is ignored if that box is empty. Throws
/// Error (kInvalidArgument).
void draw_affine(const ImageView& view, const FractionalBox& place, const AffineSteps& steps,
                 const AffineOptions& options, AffineScratch& scratch, std::span<std::byte> to);

}  // namespace energon
