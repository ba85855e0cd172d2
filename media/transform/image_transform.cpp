#include "media/transform/image_transform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "media/image/image_decoder.h"
#include "media/transform/affine.h"
#include "media/transform/color.h"
#include "media/transform/geometry.h"
#include "media/transform/normalize.h"
#include "media/transform/pixels.h"

namespace energon {

// --- Drawing the steps ---

struct DrawnSteps {
  struct Gray {};

  AffineSteps geometry;
  std::vector<std::variant<JitterDraw, Gray>> colors = {};
  std::optional<AffineSteps> thumbnail = std::nullopt;  // the last tile
};

namespace {

template <class... Functions>
struct StepCases : Functions... {
  using Functions::operator()...;
};

template <class... Functions>
StepCases(Functions...) -> StepCases<Functions...>;

constexpr std::int64_t kMostPatchNumber = 4096;

bool is_color(const ImageStep& step) {
  return std::holds_alternative<ColorJitter>(step) || std::holds_alternative<RandomGray>(step);
}

// size * part / whole, rounded down, at least 1.
std::int64_t in_ratio(std::int64_t size, std::int64_t part, std::int64_t whole) {
  check_image_size("the resized image", size, 1);
  return std::max<std::int64_t>(size * part / whole, 1);
}

void resize_shortest(AffineSteps& image, const ResizeShortest& step) {
  const std::int64_t shorter = std::min(image.width(), image.height());
  const std::int64_t longer = std::max(image.width(), image.height());
  std::int64_t new_short = step.size;
  std::int64_t new_long = in_ratio(step.size, longer, shorter);
  if (step.longest && new_long > *step.longest) {
    new_short = in_ratio(*step.longest, new_short, new_long);
    new_long = *step.longest;
  }
  const bool is_upright = image.width() <= image.height();
  image.resize(is_upright ? new_short : new_long, is_upright ? new_long : new_short);
}

void resize_longest(AffineSteps& image, std::int64_t size) {
  const std::int64_t longer = std::max(image.width(), image.height());
  const std::int64_t width = in_ratio(size, image.width(), longer);
  image.resize(width, in_ratio(size, image.height(), longer));
}

void add_border(AffineSteps& image, const Padding& padding) {
  validate(padding);
  image.crop({.x = -padding.left,
              .y = -padding.top,
              .width = image.width() + padding.left + padding.right,
              .height = image.height() + padding.top + padding.bottom});
}

// An image that is smaller than the crop is in the middle of the border.
void random_crop(AffineSteps& image, const RandomCrop& step, CallRng& rng) {
  const std::int64_t width = std::max(image.width(), step.width);
  const std::int64_t height = std::max(image.height(), step.height);
  image.crop({.x = -((width - image.width()) / 2),
              .y = -((height - image.height()) / 2),
              .width = width,
              .height = height});
  image.crop(random_crop_box(rng, width, height, step.width, step.height));
}

void random_resized_crop(AffineSteps& image, const RandomResizedCrop& step, CallRng& rng) {
  image.crop(random_resized_crop_box(rng, image.width(), image.height(), step.scale, step.ratio));
  image.resize(step.width, step.height);
}

// Adds a step to the geometry, or to the colors.
void draw_step(const ImageStep& step, DrawnSteps& drawn, CallRng& rng) {
  AffineSteps& image = drawn.geometry;
  std::visit(
      StepCases{
          [&](const ResizeTo& to) { image.resize(to.width, to.height); },
          [&](const ResizeShortest& to) { resize_shortest(image, to); },
          [&](const ResizeLongest& to) { resize_longest(image, to.size); },
          [&](const CenterCrop& to) {
            image.crop(center_box(image.width(), image.height(), to.width, to.height));
          },
          [&](const RandomCrop& to) { random_crop(image, to, rng); },
          [&](const RandomResizedCrop& to) { random_resized_crop(image, to, rng); },
          [&](const RandomHorizontalFlip& flip) {
            random_flip(rng, flip.p) ? image.flip_horizontal() : void();
          },
          [&](const RandomVerticalFlip& flip) {
            random_flip(rng, flip.p) ? image.flip_vertical() : void();
          },
          [&](const RandomRotation& turn) {
            image.rotate(random_rotation_angle(rng, turn.degrees));
          },
          [&](const PadToSquare&) {
            add_border(image, square_padding(image.width(), image.height()));
          },
          [&](const Padding& padding) { add_border(image, padding); },
          [&](const ColorJitter& jitter) { drawn.colors.push_back(draw_jitter(rng, jitter)); },
          [&](const RandomGray& gray) {
            random_flip(rng, gray.p) ? drawn.colors.push_back(DrawnSteps::Gray{}) : void();
          },
      },
      step);
}

void validate_steps(const std::vector<ImageStep>& steps, int channels) {
  bool has_color = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!is_color(steps[i])) {
      if (has_color) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("step {} changes the geometry after a step that changes colors: "
                                "put color steps last",
                                i));
      }
      continue;
    }
    has_color = true;
    if (channels != 1 && channels != 3) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("step {} changes colors of images with {} channels: must be 1 or 3",
                              i, channels));
    }
  }
}

// Ends the geometry with the size that the layout needs.
ImageGrid apply_layout(const ImageLayout& layout, DrawnSteps& drawn) {
  AffineSteps& image = drawn.geometry;
  const ImageSize size = {.width = image.width(), .height = image.height()};
  if (const auto* patches = std::get_if<PatchLayout>(&layout)) {
    const ImageSize fits = smart_resize(size, patches->patch * patches->merge, patches->min_pixels,
                                        patches->max_pixels);
    image.resize(fits.width, fits.height);
    return {.rows = fits.height / patches->patch, .columns = fits.width / patches->patch};
  }
  if (const auto* tiles = std::get_if<TileLayout>(&layout)) {
    const ImageGrid grid = tile_grid(size, *tiles);
    if (tiles->thumbnail && grid.rows * grid.columns > 1) {
      drawn.thumbnail = image;
      drawn.thumbnail->resize(tiles->width, tiles->height);
    }
    image.resize(grid.columns * tiles->width, grid.rows * tiles->height);
    return grid;
  }
  return {};
}

void validate_layout(const ImageTransformOptions& options) {
  if (const auto* patches = std::get_if<PatchLayout>(&options.layout)) {
    for (const std::int64_t number : {patches->patch, patches->temporal, patches->merge}) {
      if (number < 1 || number > kMostPatchNumber) {
        throw Error(
            ErrorCode::kInvalidArgument,
            fmt::format("patches of {0} x {0} pixels, {1} frames, merged {2} x {2}: each "
                        "must be from 1 to {3}",
                        patches->patch, patches->temporal, patches->merge, kMostPatchNumber));
      }
    }
  }
  if (!std::holds_alternative<WholeLayout>(options.layout) && !options.format.channels_first) {
    throw Error(ErrorCode::kInvalidArgument,
                "patches and tiles have channels first, but OutputFormat::channels_first is false "
                "(image modes such as 'torchrgb' have channels first)");
  }
}

// The smallest box that contains both; an empty box is in any other.
PixelBox united(const PixelBox& a, const PixelBox& b) {
  if (a.width < 1 || a.height < 1 || b.width < 1 || b.height < 1) {
    return a.width < 1 || a.height < 1 ? b : a;
  }
  const std::int64_t x = std::min(a.x, b.x);
  const std::int64_t y = std::min(a.y, b.y);
  return {.x = x,
          .y = y,
          .width = std::max(a.x + a.width, b.x + b.width) - x,
          .height = std::max(a.y + a.height, b.y + b.height) - y};
}

// The place of `box`, a part of `whole`, where `place` is that of `whole`.
FractionalBox place_of(const PixelBox& box, const PixelBox& whole, const FractionalBox& place) {
  if (box == whole || box.width < 1 || box.height < 1) {
    return place;
  }
  const double across = place.width / static_cast<double>(whole.width);
  const double down = place.height / static_cast<double>(whole.height);
  return {.x = place.x + static_cast<double>(box.x - whole.x) * across,
          .y = place.y + static_cast<double>(box.y - whole.y) * down,
          .width = static_cast<double>(box.width) * across,
          .height = static_cast<double>(box.height) * down};
}

// The side to which the box is decoded, so that it is not smaller than the result.
std::int64_t least_side(std::int64_t side, double shrink, double margin) {
  const double least = std::ceil(static_cast<double>(side) / std::max(shrink, 1.0) * margin);
  return std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::min(least, static_cast<double>(side))), 1, side);
}

}  // namespace

// --- The transform ---

struct ImageTransform::Work {
  Normalizer normalizer;
  AffineScratch scratch = {};
  std::vector<std::byte> levels = {};
};

ImageTransform::ImageTransform(std::vector<ImageStep> steps, ImageTransformOptions options)
    : steps_(std::move(steps)),
      options_(options),
      work_(std::make_unique<Work>(Work{Normalizer(options.format, options.channels)})) {
  validate_steps(steps_, options_.channels);
  validate_layout(options_);
  if (!(options_.decode_margin >= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("ImageTransformOptions::decode_margin of {}: must be at least 1",
                            options_.decode_margin));
  }
  CallRng rng(0);
  plan(64, 64, rng);  // throws for steps that no image can pass
}

bool ImageTransform::is_random() const {
  return std::ranges::any_of(steps_, [](const ImageStep& step) {
    return std::visit(
        [](const auto& one) {
          using Step = std::decay_t<decltype(one)>;
          return std::is_same_v<Step, RandomCrop> || std::is_same_v<Step, RandomResizedCrop> ||
                 std::is_same_v<Step, RandomHorizontalFlip> ||
                 std::is_same_v<Step, RandomVerticalFlip> || std::is_same_v<Step, RandomRotation> ||
                 std::is_same_v<Step, ColorJitter> || std::is_same_v<Step, RandomGray>;
        },
        step);
  });
}

ImageTransform::ImageTransform(const ImageTransform& other)
    : steps_(other.steps_), options_(other.options_), work_(std::make_unique<Work>(*other.work_)) {}

ImageTransform& ImageTransform::operator=(const ImageTransform& other) {
  return *this = ImageTransform(other);
}

ImageTransform::ImageTransform(ImageTransform&&) noexcept = default;
ImageTransform& ImageTransform::operator=(ImageTransform&&) noexcept = default;
ImageTransform::~ImageTransform() = default;

TensorSpec ImageTransform::output(std::int64_t width, std::int64_t height) const {
  CallRng rng(0);  // sizes do not depend on what is drawn
  return output(plan(width, height, rng));
}

TensorSpec ImageTransform::output(const ImagePlan& plan) const {
  const AffineSteps& geometry = plan.steps->geometry;
  TensorSpec spec =
      output_spec(options_.format, geometry.width(), geometry.height(), options_.channels);
  const std::int64_t parts = plan.grid.rows * plan.grid.columns;
  if (const auto* patches = std::get_if<PatchLayout>(&options_.layout)) {
    spec.shape = {parts, options_.channels * patches->temporal * patches->patch * patches->patch};
  } else if (const auto* tiles = std::get_if<TileLayout>(&options_.layout)) {
    spec.shape = {parts + (plan.steps->thumbnail ? 1 : 0), options_.channels, tiles->height,
                  tiles->width};
  }
  return spec;
}

ImagePlan ImageTransform::plan(std::int64_t width, std::int64_t height, CallRng& rng) const {
  auto drawn = std::make_shared<DrawnSteps>(DrawnSteps{AffineSteps(width, height)});
  for (const ImageStep& step : steps_) {
    draw_step(step, *drawn, rng);
  }
  ImagePlan plan;
  plan.grid = apply_layout(options_.layout, *drawn);
  plan.box = drawn->geometry.needed_box(options_.filter);
  if (drawn->thumbnail) {
    plan.box = united(plan.box, drawn->thumbnail->needed_box(options_.filter));
  }
  if (plan.box.width < 1 || plan.box.height < 1) {
    plan.box = {.width = 1, .height = 1};
  }
  const auto [across, down] = drawn->geometry.shrink();
  plan.least_width = least_side(plan.box.width, across, options_.decode_margin);
  plan.least_height = least_side(plan.box.height, down, options_.decode_margin);
  plan.steps = std::move(drawn);
  return plan;
}

void ImageTransform::run(const ImageView& image, CallRng& rng, std::span<std::byte> to) {
  const ImagePlan drawn = plan(image.width, image.height, rng);
  run_planned(drawn, image,
              {.x = static_cast<double>(drawn.box.x),
               .y = static_cast<double>(drawn.box.y),
               .width = static_cast<double>(drawn.box.width),
               .height = static_cast<double>(drawn.box.height)},
              to);
}

void ImageTransform::run_planned(const ImagePlan& plan, const ImageView& image,
                                 const FractionalBox& place, std::span<std::byte> to) {
  check_image(image);
  if (image.dtype != DType::kUInt8 || image.channels != options_.channels) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an image with {} channels of {}: this transform expects {} of uint8 "
                            "(ImageTransformOptions::channels)",
                            image.channels, to_string(image.dtype), options_.channels));
  }
  const TensorSpec spec = output(plan);
  if (to.size() != tensor_bytes(spec.dtype, spec.shape)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the tensor needs {} bytes, but the memory for it has {}",
                            tensor_bytes(spec.dtype, spec.shape), to.size()));
  }
  if (options_.format.dtype == DType::kUInt8 && !options_.format.channels_first) {
    draw(plan, plan.steps->geometry, image, place, to);
    return;
  }
  const ImageView drawn = draw_levels(plan, plan.steps->geometry, image, place);
  if (const auto* patches = std::get_if<PatchLayout>(&options_.layout)) {
    work_->normalizer.run_patches(drawn, *patches, to);
  } else if (const auto* tiles = std::get_if<TileLayout>(&options_.layout)) {
    const std::size_t bytes = to.size() / static_cast<std::size_t>(spec.shape[0]);
    for (std::int64_t i = 0; i < plan.grid.rows * plan.grid.columns; ++i, to = to.subspan(bytes)) {
      const PixelBox tile = {.x = i % plan.grid.columns * tiles->width,
                             .y = i / plan.grid.columns * tiles->height,
                             .width = tiles->width,
                             .height = tiles->height};
      work_->normalizer.run(crop(drawn, tile), to.first(bytes));
    }
    if (plan.steps->thumbnail) {
      work_->normalizer.run(draw_levels(plan, *plan.steps->thumbnail, image, place), to);
    }
  } else {
    work_->normalizer.run(drawn, to);
  }
}

// Writes the levels of `geometry`, one of those of the plan, to `to`.
void ImageTransform::draw(const ImagePlan& plan, const AffineSteps& geometry,
                          const ImageView& image, const FractionalBox& place,
                          std::span<std::byte> to) {
  draw_affine(image, place_of(geometry.needed_box(options_.filter), plan.box, place), geometry,
              {.filter = options_.filter, .antialias = options_.antialias, .fill = options_.fill},
              work_->scratch, to);
  for (const auto& color : plan.steps->colors) {
    std::visit(StepCases{[&](const JitterDraw& drawn) { apply_jitter(drawn, to, image.channels); },
                         [&](const DrawnSteps::Gray&) { make_gray(to, image.channels); }},
               color);
  }
}

// The same, in memory of this object until the next call.
ImageView ImageTransform::draw_levels(const ImagePlan& plan, const AffineSteps& geometry,
                                      const ImageView& image, const FractionalBox& place) {
  work_->levels.resize(
      static_cast<std::size_t>(geometry.width() * geometry.height() * image.channels));
  draw(plan, geometry, image, place, work_->levels);
  return image_view(work_->levels, geometry.width(), geometry.height(), image.channels);
}

// --- Encoded images ---

namespace {

ImageChannels channels_of(int count) {
  switch (count) {
    case 1:
      return ImageChannels::kGray;
    case 3:
      return ImageChannels::kRgb;
    case 4:
      return ImageChannels::kRgba;
    default:
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("images are decoded to 1, 3 or 4 channels, but the transform is for {}",
                      count));
  }
}

}  // namespace

namespace {

std::pair<Tensor, ImageGrid> decode_with_grid(ByteView encoded, ImageTransform& transform,
                                              CallRng& rng, BufferAllocator& memory,
                                              const TransformedImageOptions& options) {
  const ImageChannels channels = channels_of(transform.channels());
  EncodedImage image(encoded, options.limits);
  const auto [width, height] = decoded_size(image.info(), options.apply_orientation);
  const ImagePlan plan = transform.plan(width, height, rng);
  // Not in `memory`, which is for the adjacent tensors of a batch.
  const DecodedRegion region = image.decode(
      {.crop = plan.box, .least_width = plan.least_width, .least_height = plan.least_height},
      channels, options.apply_orientation, heap_memory());
  TensorSpec spec = transform.output(plan);
  NewTensor result = new_tensor(spec.dtype, std::move(spec.shape), memory);
  transform.run_planned(
      plan, image_view(region.pixels.bytes, region.width, region.height, region.channels),
      region.box, result.bytes);
  return {std::move(result.tensor), plan.grid};
}

}  // namespace

Tensor decode_transformed(ByteView encoded, ImageTransform& transform, CallRng& rng,
                          BufferAllocator& memory, const TransformedImageOptions& options) {
  return decode_with_grid(encoded, transform, rng, memory, options).first;
}

Value decode_transformed_value(ByteView encoded, ImageTransform& transform, CallRng& rng,
                               BufferAllocator& memory, const TransformedImageOptions& options) {
  auto [tensor, grid] = decode_with_grid(encoded, transform, rng, memory, options);
  if (!transform.has_patches()) {
    return std::move(tensor);
  }
  const std::array<std::int64_t, 3> sizes = {1, grid.rows, grid.columns};
  NewTensor grid_thw = new_tensor(DType::kInt64, {1, 3}, memory);
  std::memcpy(grid_thw.bytes.data(), sizes.data(), sizeof sizes);
  Mapping result;
  result.emplace_back("pixel_values", std::move(tensor));
  result.emplace_back("image_grid_thw", std::move(grid_thw.tensor));
  return result;
}

}  // namespace energon
