#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/affine_steps.h"
#include "media/transform/warp.h"

namespace energon {
namespace {

constexpr double kLeastShrink = 1.2;
constexpr double kSlop = 1e-7;  // pixels by which rounding may move the edge of a box

// What is left to draw: `map` takes points of the result to points of `source`.
struct Drawing {
  ImageView source;
  AffineMatrix map;
  std::int64_t width = 0;
  std::int64_t height = 0;
};

AffineMatrix moved(const AffineMatrix& map, std::int64_t x, std::int64_t y) {
  return compose(map, translation(-static_cast<double>(x), -static_cast<double>(y)));
}

// Without what rounding may have added to a whole number.
double rounded_off(double x) {
  const double whole = std::nearbyint(x);
  return std::abs(x - whole) < kSlop ? whole : x;
}

// From points of the source to those of the view.
struct ViewScale {
  double across;
  double down;
  double x;
  double y;

  AffineMatrix matrix() const { return compose(scaling(across, down), translation(x, y)); }
};

ViewScale view_scale(const ImageView& view, const FractionalBox& place, const PixelBox& needed) {
  const bool is_inside = place.x >= -kSlop && place.y >= -kSlop && place.width > 0 &&
                         place.height > 0 &&
                         place.x + place.width <= static_cast<double>(view.width) + kSlop &&
                         place.y + place.height <= static_cast<double>(view.height) + kSlop;
  if (!is_inside) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the needed pixels lie at ({}, {}), {} x {}: not inside of the image of "
                    "{} x {}",
                    place.x, place.y, place.width, place.height, view.width, view.height));
  }
  const double across = place.width / static_cast<double>(needed.width);
  const double down = place.height / static_cast<double>(needed.height);
  return {.across = across,
          .down = down,
          .x = place.x - static_cast<double>(needed.x) * across,
          .y = place.y - static_cast<double>(needed.y) * down};
}

// The pixels of the view that show a part of `box`.
PixelBox pixels_of(const ImageView& view, const PixelBox& box, const ViewScale& scale) {
  const auto low = [](std::int64_t place, double by, double shift, std::int64_t most) {
    const double edge = std::floor(static_cast<double>(place) * by + shift + kSlop);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(edge), 0, most - 1);
  };
  const auto high = [](std::int64_t place, double by, double shift, std::int64_t most) {
    const double edge = std::ceil(static_cast<double>(place) * by + shift - kSlop);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(edge), 0, most);
  };
  const std::int64_t x = low(box.x, scale.across, scale.x, view.width);
  const std::int64_t y = low(box.y, scale.down, scale.y, view.height);
  const std::int64_t right = high(box.x + box.width, scale.across, scale.x, view.width);
  const std::int64_t bottom = high(box.y + box.height, scale.down, scale.y, view.height);
  return {.x = x,
          .y = y,
          .width = std::max<std::int64_t>(right - x, 1),
          .height = std::max<std::int64_t>(bottom - y, 1)};
}

// Cuts off rounding errors: the part of `size` pixels from `begin` on, or false if it is not
// inside.
bool snap(double& begin, double& length, std::int64_t size) {
  const auto most = static_cast<double>(size);
  const double end = rounded_off(begin + length);
  begin = rounded_off(begin);
  length = end - begin;
  return begin >= 0 && end <= most && length > 0;
}

// The part of the source that a map without rotation shows, however it is flipped. Nothing if it is
// not inside of the source.
bool shown_box(const Drawing& drawing, double across, double down, double width, double height,
               FractionalBox& box) {
  box.x = std::min(drawing.map.c, drawing.map.c + across * width);
  box.y = std::min(drawing.map.f, drawing.map.f + down * height);
  box.width = std::abs(across) * width;
  box.height = std::abs(down) * height;
  return snap(box.x, box.width, drawing.source.width) &&
         snap(box.y, box.height, drawing.source.height);
}

ImageView scratch_view(const ImageView& like, std::int64_t width, std::int64_t height,
                       AffineScratch& scratch) {
  scratch.pixels.resize(static_cast<std::size_t>(width * height * like.pixel_bytes()));
  return image_view(scratch.pixels, width, height, like.channels, like.dtype);
}

bool draw_upright(const Drawing& drawing, const AffineOptions& options, AffineScratch& scratch,
                  std::span<std::byte> to) {
  const AffineMatrix& map = drawing.map;
  FractionalBox box;
  if (map.b != 0 || map.d != 0 ||
      !shown_box(drawing, map.a, map.e, static_cast<double>(drawing.width),
                 static_cast<double>(drawing.height), box)) {
    return false;
  }
  scratch.resizer.resize(drawing.source, box, drawing.width, drawing.height,
                         {.filter = options.filter,
                          .antialias = options.antialias,
                          .flip_horizontal = map.a < 0,
                          .flip_vertical = map.e < 0},
                         to);
  return true;
}

// Resizes the source as it lies, then turns.
bool draw_turned(const Drawing& drawing, const AffineOptions& options, AffineScratch& scratch,
                 std::span<std::byte> to) {
  const AffineMatrix& map = drawing.map;
  const auto width = static_cast<double>(drawing.width);
  const auto height = static_cast<double>(drawing.height);
  FractionalBox box;
  if (map.a != 0 || map.e != 0 || !shown_box(drawing, map.b, map.d, height, width, box)) {
    return false;
  }
  const ImageView lying = scratch_view(drawing.source, drawing.height, drawing.width, scratch);
  scratch.resizer.resize(drawing.source, box, lying.width, lying.height,
                         {.filter = options.filter,
                          .antialias = options.antialias,
                          .flip_horizontal = map.b < 0,
                          .flip_vertical = map.d < 0},
                         scratch.pixels);
  const AffineMatrix transpose = {.a = 0, .b = 1, .c = 0, .d = 1, .e = 0, .f = 0};
  warp_affine(lying, transpose, drawing.width, drawing.height, {}, to);
  return true;
}

// Replaces the source by what the warp needs of it, smaller where the result has fewer pixels.
void shrink_source(Drawing& drawing, const AffineOptions& options, AffineScratch& scratch) {
  const double across = std::hypot(drawing.map.a, drawing.map.b);
  const double down = std::hypot(drawing.map.d, drawing.map.e);
  if (!options.antialias || options.filter == ResizeFilter::kNearest ||
      std::max(across, down) < kLeastShrink) {
    return;
  }
  const auto shrunk = [](std::int64_t size, double by) {
    const double pixels = std::nearbyint(static_cast<double>(size) / by);
    return by < kLeastShrink ? size : std::max<std::int64_t>(static_cast<std::int64_t>(pixels), 1);
  };
  const std::int64_t width = shrunk(drawing.source.width, across);
  const std::int64_t height = shrunk(drawing.source.height, down);
  const ImageView smaller = scratch_view(drawing.source, width, height, scratch);
  scratch.resizer.resize(drawing.source, width, height, {.filter = options.filter}, scratch.pixels);
  drawing.map =
      compose(drawing.map,
              scaling(static_cast<double>(width) / static_cast<double>(drawing.source.width),
                      static_cast<double>(height) / static_cast<double>(drawing.source.height)));
  drawing.source = smaller;
}

void draw_warped(Drawing drawing, const AffineOptions& options, AffineScratch& scratch,
                 std::span<std::byte> to) {
  shrink_source(drawing, options, scratch);
  const bool nearest = options.filter == ResizeFilter::kNearest;
  warp_affine(
      drawing.source, drawing.map, drawing.width, drawing.height,
      {.filter = nearest ? WarpFilter::kNearest : WarpFilter::kBilinear, .fill = options.fill}, to);
}

}  // namespace

void draw_affine(const ImageView& view, const FractionalBox& place, const AffineSteps& steps,
                 const AffineOptions& options, AffineScratch& scratch, std::span<std::byte> to) {
  check_image(view);
  check_room(view, steps.width(), steps.height(), to);
  const PixelBox needed = steps.needed_box(options.filter);
  if (needed.width < 1 || needed.height < 1) {
    warp_affine(view, translation(static_cast<double>(view.width) + 1, 0), steps.width(),
                steps.height(), {.filter = WarpFilter::kNearest, .fill = options.fill}, to);
    return;
  }
  const ViewScale scale = view_scale(view, place, needed);
  const bool is_scaled = scale.across != 1 || scale.down != 1;
  const AffineMatrix to_view =
      is_scaled ? scale.matrix() : translation(rounded_off(scale.x), rounded_off(scale.y));
  // What is not needed is left out, so that the result does not depend on what the view shows.
  const PixelBox seen = pixels_of(view, needed, scale);
  const Drawing drawing = {.source = crop(view, seen),
                           .map = moved(compose(steps.to_source(), to_view), seen.x, seen.y),
                           .width = steps.width(),
                           .height = steps.height()};
  if (is_exact(drawing.map)) {
    warp_affine(drawing.source, drawing.map, drawing.width, drawing.height, {.fill = options.fill},
                to);
  } else if (!draw_upright(drawing, options, scratch, to) &&
             !draw_turned(drawing, options, scratch, to)) {
    draw_warped(drawing, options, scratch, to);
  }
}

}  // namespace energon
