#include "media/transform/warp.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr int kPointBits = 32;   // fraction of a pixel, while stepping along a row
constexpr int kWeightBits = 10;  // fraction of a pixel, as a weight for uint8
constexpr std::int32_t kWholeWeight = 1 << kWeightBits;
constexpr double kFarthest = 1 << 28;  // pixels; the range of steps along a row

template <class T>
using PixelFill = std::array<T, kMaxImageChannels>;

template <class T>
PixelFill<T> pixel_fill(const FillColor& color) {
  PixelFill<T> fill = {};
  for (std::size_t i = 0; i < fill.size(); ++i) {
    if constexpr (std::is_same_v<T, std::uint8_t>) {
      fill[i] = static_cast<T>(std::clamp(std::floor(color[i] + 0.5), 0.0, 255.0));
    } else {
      fill[i] = static_cast<T>(color[i]);
    }
  }
  return fill;
}

template <class T>
struct WarpSource {
  const ImageView& image;
  PixelFill<T> fill;

  const T* pixel(std::int64_t x, std::int64_t y) const {
    const bool inside = x >= 0 && x < image.width && y >= 0 && y < image.height;
    return inside ? reinterpret_cast<const T*>(image.row(y)) + x * image.channels : fill.data();
  }
};

// A coordinate in pixels as an integer with kPointBits of fraction.
std::int64_t fixed_point(double coordinate) {
  return static_cast<std::int64_t>(std::floor(coordinate * 0x1p32 + 0.5));
}

void check_map(const AffineMatrix& map, std::int64_t width, std::int64_t height) {
  for (const double x : {0.0, static_cast<double>(width)}) {
    for (const double y : {0.0, static_cast<double>(height)}) {
      const auto [sx, sy] = apply(map, x, y);
      if (!(std::abs(sx) < kFarthest) || !(std::abs(sy) < kFarthest)) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("the map moves the corner ({}, {}) of the result to ({}, {}): it "
                                "must be within {} pixels",
                                x, y, sx, sy, kFarthest));
      }
    }
  }
}

// Calls sample(x, y, place) with the point in the source, for each pixel of the result.
template <class T, class Sample>
void for_each_pixel(const AffineMatrix& map, std::int64_t width, std::int64_t height, int channels,
                    double origin, T* to, const Sample& sample) {
  const std::int64_t step_x = fixed_point(map.a);
  const std::int64_t step_y = fixed_point(map.d);
  for (std::int64_t row = 0; row < height; ++row) {
    const auto [begin_x, begin_y] = apply(map, 0.5, static_cast<double>(row) + 0.5);
    std::int64_t x = fixed_point(begin_x - origin);
    std::int64_t y = fixed_point(begin_y - origin);
    for (std::int64_t column = 0; column < width; ++column, to += channels) {
      sample(x, y, to);
      x += step_x;
      y += step_y;
    }
  }
}

template <int kChannels, class T>
void warp_nearest(const WarpSource<T>& source, const AffineMatrix& map, std::int64_t width,
                  std::int64_t height, T* to) {
  for_each_pixel(map, width, height, kChannels, 0, to,
                 [&](std::int64_t x, std::int64_t y, T* place) {
                   std::copy_n(source.pixel(x >> kPointBits, y >> kPointBits), kChannels, place);
                 });
}

// Weights of the farther pixels, on the right and below.
template <class Weight>
struct WarpWeights {
  Weight across;
  Weight down;
};

std::int32_t rounded_weight(std::int64_t point) {
  const std::uint64_t fraction = static_cast<std::uint32_t>(point);
  const std::uint64_t half = std::uint64_t{1} << (kPointBits - kWeightBits - 1);
  return static_cast<std::int32_t>((fraction + half) >> (kPointBits - kWeightBits));
}

WarpWeights<std::int32_t> weights_of(std::int64_t x, std::int64_t y, std::uint8_t /*type*/) {
  return {rounded_weight(x), rounded_weight(y)};
}

WarpWeights<double> weights_of(std::int64_t x, std::int64_t y, float /*type*/) {
  return {static_cast<std::uint32_t>(x) * 0x1p-32, static_cast<std::uint32_t>(y) * 0x1p-32};
}

std::uint8_t between(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d,
                     WarpWeights<std::int32_t> weights) {
  const std::int32_t upper = a * kWholeWeight + (b - a) * weights.across;
  const std::int32_t lower = c * kWholeWeight + (d - c) * weights.across;
  const std::int32_t sum = upper * (kWholeWeight - weights.down) + lower * weights.down;
  return static_cast<std::uint8_t>((sum + (1 << (2 * kWeightBits - 1))) >> (2 * kWeightBits));
}

float between(float a, float b, float c, float d, WarpWeights<double> weights) {
  // A pixel without weight must not contribute, even if it is NaN: 0 * NaN is not 0.
  const auto blend = [](double x, double y, double weight) {
    return weight == 0 ? x : x * (1 - weight) + y * weight;
  };
  const double upper = blend(a, b, weights.across);
  return static_cast<float>(
      weights.down == 0 ? upper : blend(upper, blend(c, d, weights.across), weights.down));
}

template <int kChannels, class T>
void warp_bilinear(const WarpSource<T>& source, const AffineMatrix& map, std::int64_t width,
                   std::int64_t height, T* to) {
  const auto inner_width = static_cast<std::uint64_t>(source.image.width - 1);
  const auto inner_height = static_cast<std::uint64_t>(source.image.height - 1);
  const auto sample = [&](std::int64_t point_x, std::int64_t point_y, T* place) {
    const std::int64_t x = point_x >> kPointBits;
    const std::int64_t y = point_y >> kPointBits;
    const T *a, *b, *c, *d;
    if (static_cast<std::uint64_t>(x) < inner_width &&
        static_cast<std::uint64_t>(y) < inner_height) {
      a = reinterpret_cast<const T*>(source.image.row(y)) + x * kChannels;
      b = a + kChannels;
      c = reinterpret_cast<const T*>(source.image.row(y + 1)) + x * kChannels;
      d = c + kChannels;
    } else {
      a = source.pixel(x, y);
      b = source.pixel(x + 1, y);
      c = source.pixel(x, y + 1);
      d = source.pixel(x + 1, y + 1);
    }
    const auto weights = weights_of(point_x, point_y, T{});
    for (int i = 0; i < kChannels; ++i) {
      place[i] = between(a[i], b[i], c[i], d[i], weights);
    }
  };
  for_each_pixel(map, width, height, kChannels, 0.5, to, sample);
}

template <int kChannels, class T>
void warp_channels(const ImageView& from, const AffineMatrix& map, std::int64_t width,
                   std::int64_t height, const WarpOptions& options, T* to) {
  const WarpSource<T> source = {from, pixel_fill<T>(options.fill)};
  if (options.filter == WarpFilter::kNearest || is_exact(map)) {
    warp_nearest<kChannels>(source, map, width, height, to);
  } else {
    warp_bilinear<kChannels>(source, map, width, height, to);
  }
}

template <class T>
void warp(const ImageView& from, const AffineMatrix& map, std::int64_t width, std::int64_t height,
          const WarpOptions& options, std::span<std::byte> to) {
  T* result = reinterpret_cast<T*>(to.data());
  switch (from.channels) {
    case 1:
      return warp_channels<1>(from, map, width, height, options, result);
    case 2:
      return warp_channels<2>(from, map, width, height, options, result);
    case 3:
      return warp_channels<3>(from, map, width, height, options, result);
    default:
      return warp_channels<4>(from, map, width, height, options, result);
  }
}

// Copies an upright image: whole rows where they are inside, the fill around them.
bool copy_upright(const ImageView& from, const AffineMatrix& map, std::int64_t width,
                  std::int64_t height, std::span<std::byte> to) {
  if (!is_exact(map) || map.a != 1 || map.e != 1 || map.c < 0 || map.f < 0 ||
      map.c + static_cast<double>(width) > static_cast<double>(from.width) ||
      map.f + static_cast<double>(height) > static_cast<double>(from.height)) {
    return false;
  }
  const std::int64_t bytes = width * from.pixel_bytes();
  const std::byte* row = from.row(static_cast<std::int64_t>(map.f)) +
                         static_cast<std::int64_t>(map.c) * from.pixel_bytes();
  for (std::int64_t y = 0; y < height; ++y) {
    std::memcpy(to.data() + y * bytes, row + y * from.row_bytes, static_cast<std::size_t>(bytes));
  }
  return true;
}

}  // namespace

void warp_affine(const ImageView& from, const AffineMatrix& map, std::int64_t width,
                 std::int64_t height, const WarpOptions& options, std::span<std::byte> to) {
  check_image(from);
  check_image_size("the result", width, height);
  check_room(from, width, height, to);
  check_map(map, width, height);
  if (copy_upright(from, map, width, height, to)) {
    return;
  }
  if (from.dtype == DType::kFloat32) {
    warp<float>(from, map, width, height, options, to);
  } else {
    warp<std::uint8_t>(from, map, width, height, options, to);
  }
}

}  // namespace energon
