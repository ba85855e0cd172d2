// Affine maps of the plane, which say where in the source the pixels of a result come from.

#pragma once

#include <array>
#include <cstdint>

namespace energon {

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

}  // namespace energon
