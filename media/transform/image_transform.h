// From a decoded image to the tensor of a training sample: geometry, colors, numbers.
//
// Geometric steps are merged into one resampling (affine.h). A plan is drawn before the image
// is decoded, so that a decoder can leave out what is not needed:
//
//   ImagePlan plan = transform.plan(width, height, rng);
//   // decode plan.box, as at least plan.least_width * plan.least_height pixels
//   transform.run_planned(plan, view, place_of_the_box_in_the_view, tensor);

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "energon/stage/call_context.h"
#include "media/transform/affine.h"
#include "media/transform/color.h"
#include "media/transform/geometry.h"
#include "media/transform/normalize.h"

namespace energon {

// --- Steps ---

struct ResizeTo {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// So that the shorter side has `size` pixels, or less if the longer one would have more than
/// `longest`. Fractions of the longer side are dropped, as in torchvision.
struct ResizeShortest {
  std::int64_t size = 0;
  std::optional<std::int64_t> longest = std::nullopt;
};

/// So that the longer side has `size` pixels; fractions of the shorter one are dropped.
struct ResizeLongest {
  std::int64_t size = 0;
};

/// See center_box(). Smaller images get a border.
struct CenterCrop {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// See random_crop_box(). Smaller images get a border first, half of it on each side.
struct RandomCrop {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// A random part of the image, resized. See random_resized_crop_box().
struct RandomResizedCrop {
  std::int64_t width = 0;
  std::int64_t height = 0;
  RandomRange scale = {0.08, 1.0};
  RandomRange ratio = {3.0 / 4, 4.0 / 3};
};

struct RandomHorizontalFlip {
  double p = 0.5;
};

struct RandomVerticalFlip {
  double p = 0.5;
};

/// Around the middle, counter-clockwise; the size stays.
struct RandomRotation {
  RandomRange degrees = {0, 0};
};

/// A border that makes the image square.
struct PadToSquare {};

/// Three equal channels, or one as it is, with probability `p`.
struct RandomGray {
  double p = 0.1;
};

/// Padding adds a border.
using ImageStep = std::variant<ResizeTo, ResizeShortest, ResizeLongest, CenterCrop, RandomCrop,
                               RandomResizedCrop, RandomHorizontalFlip, RandomVerticalFlip,
                               RandomRotation, PadToSquare, Padding, ColorJitter, RandomGray>;

// --- The transform ---

struct ImageTransformOptions {
  OutputFormat format = {};
  int channels = 3;  ///< of the decoded images; color steps need 1 or 3
  ResizeFilter filter = ResizeFilter::kBilinear;
  bool antialias = true;
  FillColor fill = {};  ///< levels of borders and corners
  /// How many times larger than the result an image must be decoded, where the decoder can shrink.
  /// 1 is the fastest. 2 and more come closer to shrinking in one step, as Pillow's reducing_gap.
  double decode_margin = 1;
};

/// Gray, where a RandomGray was drawn.
struct GrayDraw {};

/// What was drawn for one image.
struct ImagePlan {
  PixelBox box;                  ///< the pixels of the source that are needed, at least one
  std::int64_t least_width = 0;  ///< how small `box` may be decoded
  std::int64_t least_height = 0;
  AffineSteps geometry;
  std::vector<std::variant<JitterDraw, GrayDraw>> colors;
};

/// Copies are independent. Not thread-safe because memory is used again: one copy per thread.
class ImageTransform {
 public:
  /// Throws Error (kInvalidArgument): an option or a step that cannot be, or a geometric step
  /// after one of colors.
  explicit ImageTransform(std::vector<ImageStep> steps, ImageTransformOptions options = {});

  /// Of the images that it takes.
  int channels() const { return options_.channels; }

  /// The tensor of a source of this size. Throws Error (kInvalidArgument).
  TensorSpec output(std::int64_t width, std::int64_t height) const;
  /// The same of what was drawn for the source.
  TensorSpec output(const ImagePlan& plan) const;

  /// Draws from `rng` what the steps need, in their order; each step says how much it draws. Throws
  /// Error (kInvalidArgument).
  ImagePlan plan(std::int64_t width, std::int64_t height, CallRng& rng) const;

  /// Writes the tensor of a whole image of uint8 to `to`, which has exactly its bytes. Throws Error
  /// (kInvalidArgument).
  void run(const ImageView& image, CallRng& rng, std::span<std::byte> to);

  /// The same with what was drawn before. `image` shows the source or a part of it, at its size or
  /// scaled; plan.box lies at `place` in it, which is inside of it. At the size of the source, the
  /// result is that of run().
  void run_planned(const ImagePlan& plan, const ImageView& image, const FractionalBox& place,
                   std::span<std::byte> to);

 private:
  std::vector<ImageStep> steps_;
  ImageTransformOptions options_;
  Normalizer normalizer_;
  AffineScratch scratch_;
  std::vector<std::byte> levels_;
};

}  // namespace energon
