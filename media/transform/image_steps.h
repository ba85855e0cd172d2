// The steps of an ImageTransform.

#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "media/transform/color_jitter.h"
#include "media/transform/pad.h"
#include "media/transform/random_geometry.h"

namespace energon {

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

}  // namespace energon
