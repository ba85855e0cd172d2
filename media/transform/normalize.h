// Converts uint8 levels to the numbers of a tensor. Internal to media/transform.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "media/tensor_decoder.h"
#include "media/transform/image_layout.h"
#include "media/transform/image_transform.h"

namespace energon {

/// The tensor of an image. Throws Error (kInvalidArgument) for an invalid size, number of channels,
/// dtype, mean or stddev.
TensorSpec output_spec(const OutputFormat& format, std::int64_t width, std::int64_t height,
                       int channels);

/// Throws Error (kInvalidArgument) as output_spec().
void validate(const OutputFormat& format, int channels);

namespace kernels {

/// value = (bias + level * high) + level * low. `high` and `low` have 16 significant bits, so that
/// the products are exact and a fused multiply-add has the same result.
struct LevelScale {
  float high = 0;
  float low = 0;
  float bias = 0;
};
using LevelScales = std::array<LevelScale, 4>;

}  // namespace kernels

/// Writes tensors of one OutputFormat. Immutable and thread-safe. float32 values are within 4e-7 of
/// (level / 255 - mean) / stddev, relative to 1 / stddev; bfloat16 and float16 are rounded to
/// nearest. Values are the same on every processor.
class Normalizer {
 public:
  /// Throws Error (kInvalidArgument) as output_spec().
  Normalizer(const OutputFormat& format, int channels);

  /// Writes the tensor output_spec(format, width, height, channels) to `to`. `mirrored` flips it
  /// left to right, at almost no cost if channels come first. Throws Error (kInvalidArgument) if
  /// the image is not uint8 with these channels, or `to` does not have exactly the bytes of the
  /// tensor, or is not aligned for it.
  void run(const ImageView& image, std::span<std::byte> to, bool mirrored = false) const;

  /// Writes the patches of `layout`. Throws Error (kInvalidArgument) as run(), and unless channels
  /// come first and the sides of the image are multiples of patch * merge.
  void run_patches(const ImageView& image, const PatchLayout& layout,
                   std::span<std::byte> to) const;

 private:
  using HalfTables = std::array<std::array<std::uint16_t, 256>, kMaxImageChannels>;

  template <class Number>
  void run_planar(const ImageView& image, Number* to, bool mirrored) const;
  template <class Number>
  void run_interleaved(const ImageView& image, Number* to, bool mirrored) const;
  template <class Number>
  void run_as(const ImageView& image, std::span<std::byte> to, bool mirrored) const;

  OutputFormat format_;
  int channels_;
  kernels::LevelScales scales_ = {};
  std::shared_ptr<const HalfTables> halves_;  // float16 of all levels; null for other dtypes
};

/// The bits of the nearest float16, ties to even; numbers that are too large become infinite.
std::uint16_t to_float16(float number);

}  // namespace energon
