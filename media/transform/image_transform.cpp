#include "media/transform/image_transform.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/color.h"

namespace energon {
namespace {

template <class... Functions>
struct StepCases : Functions... {
  using Functions::operator()...;
};

template <class... Functions>
StepCases(Functions...) -> StepCases<Functions...>;

bool is_color(const ImageStep& step) {
  return std::holds_alternative<ColorJitter>(step) || std::holds_alternative<RandomGray>(step);
}

// size * part / whole without its fraction, at least 1.
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

// Where the image is smaller than the crop, its place in the border is the middle.
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
void draw_step(const ImageStep& step, ImagePlan& plan, CallRng& rng) {
  AffineSteps& image = plan.geometry;
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
          [&](const ColorJitter& jitter) { plan.colors.push_back(draw_jitter(rng, jitter)); },
          [&](const RandomGray& gray) {
            random_flip(rng, gray.p) ? plan.colors.push_back(GrayDraw{}) : void();
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
                                "put steps of colors last",
                                i));
      }
      continue;
    }
    has_color = true;
    if (channels != 1 && channels != 3) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("step {} changes colors of images of {} channels: must be 1 or 3", i,
                              channels));
    }
  }
}

// Pixels of the decoded box so that it is not smaller than the result.
std::int64_t least_side(std::int64_t side, double shrink, double margin) {
  const double least = std::ceil(static_cast<double>(side) / std::max(shrink, 1.0) * margin);
  return std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::min(least, static_cast<double>(side))), 1, side);
}

}  // namespace

ImageTransform::ImageTransform(std::vector<ImageStep> steps, ImageTransformOptions options)
    : steps_(std::move(steps)), options_(options), normalizer_(options.format, options.channels) {
  validate_steps(steps_, options_.channels);
  if (!(options_.decode_margin >= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("ImageTransformOptions::decode_margin of {}: must be at least 1",
                            options_.decode_margin));
  }
  CallRng rng(0);
  plan(64, 64, rng);  // refuses what no image can be given to
}

TensorSpec ImageTransform::output(std::int64_t width, std::int64_t height) const {
  CallRng rng(0);  // sizes do not depend on what is drawn
  return output(plan(width, height, rng));
}

TensorSpec ImageTransform::output(const ImagePlan& plan) const {
  return output_spec(options_.format, plan.geometry.width(), plan.geometry.height(),
                     options_.channels);
}

ImagePlan ImageTransform::plan(std::int64_t width, std::int64_t height, CallRng& rng) const {
  ImagePlan plan = {.box = {}, .geometry = AffineSteps(width, height), .colors = {}};
  for (const ImageStep& step : steps_) {
    draw_step(step, plan, rng);
  }
  plan.box = plan.geometry.needed_box(options_.filter);
  if (plan.box.width < 1 || plan.box.height < 1) {
    plan.box = {.width = 1, .height = 1};
  }
  const auto [across, down] = plan.geometry.shrink();
  plan.least_width = least_side(plan.box.width, across, options_.decode_margin);
  plan.least_height = least_side(plan.box.height, down, options_.decode_margin);
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
                fmt::format("an image of {} channels of {}: this transform takes {} of uint8 "
                            "(ImageTransformOptions::channels)",
                            image.channels, to_string(image.dtype), options_.channels));
  }
  const std::int64_t width = plan.geometry.width();
  const std::int64_t height = plan.geometry.height();
  const TensorSpec spec = output_spec(options_.format, width, height, image.channels);
  if (to.size() != tensor_bytes(spec.dtype, spec.shape)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the tensor has {} bytes, the place for it has {}",
                            tensor_bytes(spec.dtype, spec.shape), to.size()));
  }
  const bool has_levels = options_.format.dtype == DType::kUInt8 && !options_.format.channels_first;
  std::span<std::byte> levels = to;
  if (!has_levels) {
    levels_.resize(static_cast<std::size_t>(width * height * image.channels));
    levels = levels_;
  }
  draw_affine(image, place, plan.geometry,
              {.filter = options_.filter, .antialias = options_.antialias, .fill = options_.fill},
              scratch_, levels);
  for (const auto& color : plan.colors) {
    std::visit(
        StepCases{[&](const JitterDraw& drawn) { apply_jitter(drawn, levels, image.channels); },
                  [&](const GrayDraw&) { make_gray(levels, image.channels); }},
        color);
  }
  if (!has_levels) {
    normalizer_.run(image_view(levels, width, height, image.channels), to);
  }
}

}  // namespace energon
