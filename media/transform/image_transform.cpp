#include "media/transform/image_transform.h"

#include <algorithm>
#include <cmath>
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
};

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
  return output_spec(options_.format, geometry.width(), geometry.height(), options_.channels);
}

ImagePlan ImageTransform::plan(std::int64_t width, std::int64_t height, CallRng& rng) const {
  auto drawn = std::make_shared<DrawnSteps>(DrawnSteps{AffineSteps(width, height)});
  for (const ImageStep& step : steps_) {
    draw_step(step, *drawn, rng);
  }
  ImagePlan plan;
  plan.box = drawn->geometry.needed_box(options_.filter);
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
  const std::int64_t width = plan.steps->geometry.width();
  const std::int64_t height = plan.steps->geometry.height();
  const TensorSpec spec = output_spec(options_.format, width, height, image.channels);
  if (to.size() != tensor_bytes(spec.dtype, spec.shape)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the tensor needs {} bytes, but the memory for it has {}",
                            tensor_bytes(spec.dtype, spec.shape), to.size()));
  }
  const bool has_levels = options_.format.dtype == DType::kUInt8 && !options_.format.channels_first;
  std::span<std::byte> levels = to;
  if (!has_levels) {
    work_->levels.resize(static_cast<std::size_t>(width * height * image.channels));
    levels = work_->levels;
  }
  draw_affine(image, place, plan.steps->geometry,
              {.filter = options_.filter, .antialias = options_.antialias, .fill = options_.fill},
              work_->scratch, levels);
  for (const auto& color : plan.steps->colors) {
    std::visit(
        StepCases{[&](const JitterDraw& drawn) { apply_jitter(drawn, levels, image.channels); },
                  [&](const DrawnSteps::Gray&) { make_gray(levels, image.channels); }},
        color);
  }
  if (!has_levels) {
    work_->normalizer.run(image_view(levels, width, height, image.channels), to);
  }
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

Tensor decode_transformed(ByteView encoded, ImageTransform& transform, CallRng& rng,
                          BufferAllocator& memory, const TransformedImageOptions& options) {
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
  return std::move(result.tensor);
}

}  // namespace energon
