#include "media/transform/affine.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

// Exact for whole degrees of a quarter turn.
std::array<double, 2> cos_sin(double degrees) {
  const double turned = std::fmod(degrees, 360);
  const double quarters = turned / 90;
  if (quarters == std::floor(quarters)) {
    switch ((static_cast<int>(quarters) + 4) % 4) {
      case 0:
        return {1, 0};
      case 1:
        return {0, 1};
      case 2:
        return {-1, 0};
      default:
        return {0, -1};
    }
  }
  const double angle = turned * std::numbers::pi / 180;
  return {std::cos(angle), std::sin(angle)};
}

bool is_whole_number(double number) { return number == std::floor(number); }

bool is_sign(double number) { return number == 1 || number == -1; }

}  // namespace

std::array<double, 2> apply(const AffineMatrix& map, double x, double y) {
  return {map.a * x + map.b * y + map.c, map.d * x + map.e * y + map.f};
}

AffineMatrix compose(const AffineMatrix& first, const AffineMatrix& second) {
  const auto [c, f] = apply(second, first.c, first.f);
  return {.a = second.a * first.a + second.b * first.d,
          .b = second.a * first.b + second.b * first.e,
          .c = c,
          .d = second.d * first.a + second.e * first.d,
          .e = second.d * first.b + second.e * first.e,
          .f = f};
}

AffineMatrix inverse(const AffineMatrix& map) {
  const double area = map.a * map.e - map.b * map.d;
  if (!std::isfinite(area) || std::abs(area) < 1e-300 || !std::isfinite(map.c) ||
      !std::isfinite(map.f)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the map ({}, {}, {}; {}, {}, {}) has no inverse", map.a, map.b, map.c,
                            map.d, map.e, map.f));
  }
  const AffineMatrix turned = {
      .a = map.e / area, .b = -map.b / area, .c = 0, .d = -map.d / area, .e = map.a / area, .f = 0};
  return compose(translation(-map.c, -map.f), turned);
}

AffineMatrix translation(double x, double y) { return {.c = x, .f = y}; }

AffineMatrix scaling(double x, double y) { return {.a = x, .e = y}; }

AffineMatrix rotation(double degrees, double x, double y) {
  if (!std::isfinite(degrees)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("a rotation by {} degrees", degrees));
  }
  const auto [cosine, sine] = cos_sin(degrees);
  const AffineMatrix turn = {.a = cosine, .b = -sine, .c = 0, .d = sine, .e = cosine, .f = 0};
  return compose(compose(translation(-x, -y), turn), translation(x, y));
}

bool is_exact(const AffineMatrix& map) {
  const bool upright = is_sign(map.a) && is_sign(map.e) && map.b == 0 && map.d == 0;
  const bool turned = is_sign(map.b) && is_sign(map.d) && map.a == 0 && map.e == 0;
  return (upright || turned) && is_whole_number(map.c) && is_whole_number(map.f);
}

}  // namespace energon
