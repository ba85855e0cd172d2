#include "media/transform/affine.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/warp.h"

namespace energon {

// --- Maps ---

namespace {

// Exact for quarter turns.
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
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a rotation by {} degrees: expected a finite number", degrees));
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

// --- Steps ---

namespace {

constexpr std::int64_t kFarthestCrop = 4 * kMaxImageSide;

// The image of a box at the origin under the map, with a margin, rounded outwards to whole pixels.
PixelBox mapped_box(const AffineMatrix& map, std::int64_t width, std::int64_t height,
                    double margin_x, double margin_y) {
  const auto w = static_cast<double>(width);
  const auto h = static_cast<double>(height);
  const std::array<double, 2> from = apply(map, 0, 0);
  std::array<double, 2> low = from;
  std::array<double, 2> high = from;
  for (const auto& corner : {apply(map, w, 0), apply(map, 0, h), apply(map, w, h)}) {
    for (std::size_t i = 0; i < 2; ++i) {
      low[i] = std::min(low[i], corner[i]);
      high[i] = std::max(high[i], corner[i]);
    }
  }
  const auto whole = [](double x) {
    return static_cast<std::int64_t>(std::clamp(x, -0x1p40, 0x1p40));
  };
  const std::int64_t x = whole(std::floor(low[0] - margin_x));
  const std::int64_t y = whole(std::floor(low[1] - margin_y));
  return {.x = x,
          .y = y,
          .width = whole(std::ceil(high[0] + margin_x)) - x,
          .height = whole(std::ceil(high[1] + margin_y)) - y};
}

}  // namespace

AffineSteps::AffineSteps(std::int64_t width, std::int64_t height)
    : width_(width), height_(height), clip_{.width = width, .height = height} {
  check_image_size("the source", width, height);
}

void AffineSteps::resize(std::int64_t width, std::int64_t height) {
  check_image_size("the resized image", width, height);
  const AffineMatrix back = scaling(static_cast<double>(width_) / static_cast<double>(width),
                                    static_cast<double>(height_) / static_cast<double>(height));
  to_source_ = compose(back, to_source_);
  width_ = width;
  height_ = height;
}

void AffineSteps::crop(const PixelBox& box) {
  check_image_size("the crop", box.width, box.height);
  if (box.x < -kFarthestCrop || box.x > kFarthestCrop || box.y < -kFarthestCrop ||
      box.y > kFarthestCrop) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a crop at ({}, {}): must be within {} pixels", box.x, box.y, kFarthestCrop));
  }
  to_source_ =
      compose(translation(static_cast<double>(box.x), static_cast<double>(box.y)), to_source_);
  width_ = box.width;
  height_ = box.height;
  if (is_exact(to_source_)) {
    clip_ = intersection(clip_, mapped_box(to_source_, width_, height_, 0, 0));
  }
}

void AffineSteps::flip_horizontal() {
  to_source_ = compose({.a = -1, .c = static_cast<double>(width_)}, to_source_);
}

void AffineSteps::flip_vertical() {
  to_source_ = compose({.e = -1, .f = static_cast<double>(height_)}, to_source_);
}

void AffineSteps::rotate(double degrees) {
  to_source_ =
      compose(rotation(degrees, static_cast<double>(width_) / 2, static_cast<double>(height_) / 2),
              to_source_);
}

std::array<double, 2> AffineSteps::shrink() const {
  return {std::hypot(to_source_.a, to_source_.b), std::hypot(to_source_.d, to_source_.e)};
}

PixelBox AffineSteps::needed_box(ResizeFilter filter) const {
  const double support = filter == ResizeFilter::kBicubic ? 2 : 1;
  const auto [across, down] = shrink();
  const auto margin = [&](double shrunk) { return 2 * support * std::max(shrunk, 1.0) + 1; };
  return intersection(clip_, mapped_box(to_source_, width_, height_, margin(across), margin(down)));
}

// --- Drawing ---

namespace {

constexpr double kLeastShrink = 1.2;
constexpr double kSlop = 1e-7;  // pixels by which rounding may move the edge of a box

// The remaining work: `map` maps points of the result to points of `source`.
struct Drawing {
  ImageView source;
  AffineMatrix map;
  std::int64_t width = 0;
  std::int64_t height = 0;
};

AffineMatrix moved(const AffineMatrix& map, std::int64_t x, std::int64_t y) {
  return compose(map, translation(-static_cast<double>(x), -static_cast<double>(y)));
}

// Removes a rounding error next to a whole number.
double rounded_off(double x) {
  const double whole = std::nearbyint(x);
  return std::abs(x - whole) < kSlop ? whole : x;
}

// Maps points of the source to points of the view.
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
        fmt::format("the needed pixels at ({}, {}), {} x {}, are not inside the image of {} x {}",
                    place.x, place.y, place.width, place.height, view.width, view.height));
  }
  const double across = place.width / static_cast<double>(needed.width);
  const double down = place.height / static_cast<double>(needed.height);
  return {.across = across,
          .down = down,
          .x = place.x - static_cast<double>(needed.x) * across,
          .y = place.y - static_cast<double>(needed.y) * down};
}

// The pixels of the view that show any part of `box`.
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

// Removes rounding errors of a range; false if the range is not inside `size` pixels.
bool snap(double& begin, double& length, std::int64_t size) {
  const auto most = static_cast<double>(size);
  const double end = rounded_off(begin + length);
  begin = rounded_off(begin);
  length = end - begin;
  return begin >= 0 && end <= most && length > 0;
}

// Sets `box` to the part of the source that a map without rotation shows, flipped or not; false if
// it is not inside the source.
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

// Resizes the source in its own orientation, then transposes.
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

// Replaces the source by a smaller one if the result has fewer pixels.
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
  // Only the needed pixels are used, so that the result does not depend on the rest of the view.
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
