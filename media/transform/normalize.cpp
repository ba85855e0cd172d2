#include "media/transform/normalize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/kernels.h"
#include "media/transform/pixels.h"

namespace energon {

// --- The format of the tensor ---

namespace {

constexpr double kLargestMean = 1e6;
constexpr double kLeastDeviation = 1e-6;

void check_channel(const OutputFormat& format, std::size_t channel) {
  const double mean = format.mean[channel];
  const double stddev = format.stddev[channel];
  if (!(std::abs(mean) <= kLargestMean) || !(stddev >= kLeastDeviation) ||
      !(stddev <= kLargestMean)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("channel {} has a mean of {} and a stddev of {}: expected those of "
                            "values from 0 to 1, and a stddev of at least {}",
                            channel, mean, stddev, kLeastDeviation));
  }
  if (format.dtype == DType::kUInt8 && (mean != 0 || stddev != 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("channel {} has a mean of {} and a stddev of {}, but uint8 contains "
                            "unchanged levels: omit both, or use a floating-point dtype",
                            channel, mean, stddev));
  }
}

}  // namespace

void validate(const OutputFormat& format, int channels) {
  if (format.dtype != DType::kUInt8 && format.dtype != DType::kFloat16 &&
      format.dtype != DType::kBFloat16 && format.dtype != DType::kFloat32) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("pixels as {}: expected uint8, float16, bfloat16 or float32",
                            to_string(format.dtype)));
  }
  if (channels < 1 || channels > kMaxImageChannels) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("an image with {} channels: must be 1 to {}", channels, kMaxImageChannels));
  }
  for (int channel = 0; channel < channels; ++channel) {
    check_channel(format, static_cast<std::size_t>(channel));
  }
}

TensorSpec output_spec(const OutputFormat& format, std::int64_t width, std::int64_t height,
                       int channels) {
  validate(format, channels);
  check_image_size("the result", width, height);
  TensorSpec spec{.dtype = format.dtype, .shape = {height, width, channels}};
  if (format.channels_first) {
    spec.shape = {channels, height, width};
  }
  return spec;
}

// --- Numbers ---

namespace {

// The leading 16 bits, whose product with a level is exact.
float shortened(double number) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
  return std::bit_cast<float>(bits & 0xFFFF'FF00U);
}

kernels::LevelScale level_scale(double mean, double stddev) {
  const double scale = 1 / (255 * stddev);
  const float high = shortened(scale);
  return {.high = high,
          .low = shortened(scale - static_cast<double>(high)),
          .bias = static_cast<float>(-mean / stddev)};
}

float normalized(const kernels::LevelScale& scale, std::uint8_t level) {
  const auto number = static_cast<float>(level);
  return (scale.bias + number * scale.high) + number * scale.low;
}

// Tags a result as float16, because plain 16-bit numbers are bfloat16.
struct Half {
  std::uint16_t bits;
};

// Row `y` of channel `channel` if channels come first.
template <class Number>
Number* plane_row(Number* to, const ImageView& image, int channel, std::int64_t y) {
  return to + (channel * image.height + y) * image.width;
}

void mirror_row(const std::uint8_t* row, std::int64_t width, int channels, std::uint8_t* to) {
  for (std::int64_t x = 0; x < width; ++x) {
    std::copy_n(row + (width - 1 - x) * channels, channels, to + x * channels);
  }
}

const std::uint8_t* level_row(const ImageView& image, std::int64_t y) {
  return reinterpret_cast<const std::uint8_t*>(image.row(y));
}

}  // namespace

std::uint16_t to_float16(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const float size = std::abs(number);
  if (std::isnan(number)) {
    return sign | 0x7E00U;
  }
  if (size >= 65520) {
    return sign | 0x7C00U;
  }
  if (size < 0x1p-14F) {  // subnormal: multiples of 2^-24
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint16_t>(std::nearbyint(size * 0x1p24F)));
  }
  const std::uint32_t magnitude = bits & 0x7FFF'FFFFU;
  const std::uint32_t up = magnitude + 0xFFFU + (magnitude >> 13 & 1U) - (112U << 23);
  return static_cast<std::uint16_t>(sign | up >> 13);
}

Normalizer::Normalizer(const OutputFormat& format, int channels)
    : format_(format), channels_(channels) {
  validate(format, channels);
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    scales_[c] = level_scale(format.mean[c], format.stddev[c]);
  }
  if (format.dtype != DType::kFloat16) {
    return;
  }
  auto tables = std::make_shared<HalfTables>();
  for (std::size_t c = 0; c < tables->size(); ++c) {
    for (std::size_t level = 0; level < 256; ++level) {
      (*tables)[c][level] = to_float16(normalized(scales_[c], static_cast<std::uint8_t>(level)));
    }
  }
  halves_ = std::move(tables);
}

template <class Number>
void Normalizer::run_planar(const ImageView& image, Number* to, bool mirrored) const {
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* row = level_row(image, y);
    if constexpr (!std::is_same_v<Number, Half>) {
      std::array<Number*, 4> places = {};
      for (int c = 0; c < channels_; ++c) {
        places[static_cast<std::size_t>(c)] = plane_row(to, image, c, y);
      }
      kernels::normalize_planar(row, image.width, channels_, scales_, mirrored, places);
    } else {
      for (int c = 0; c < channels_; ++c) {
        const auto& table = (*halves_)[static_cast<std::size_t>(c)];
        Number* place = plane_row(to, image, c, y);
        for (std::int64_t x = 0; x < image.width; ++x) {
          place[x] = {table[row[(mirrored ? image.width - 1 - x : x) * channels_ + c]]};
        }
      }
    }
  }
}

template <class Number>
void Normalizer::run_interleaved(const ImageView& image, Number* to, bool mirrored) const {
  const std::int64_t count = image.width * channels_;
  std::vector<std::uint8_t> memory(mirrored ? static_cast<std::size_t>(count) : 0);
  for (std::int64_t y = 0; y < image.height; ++y, to += count) {
    const std::uint8_t* row = level_row(image, y);
    if (mirrored) {
      mirror_row(row, image.width, channels_, memory.data());
      row = memory.data();
    }
    if constexpr (std::is_same_v<Number, std::uint8_t>) {
      std::copy_n(row, count, to);
    } else if constexpr (std::is_same_v<Number, Half>) {
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = {(*halves_)[static_cast<std::size_t>(i % channels_)][row[i]]};
      }
    } else {
      kernels::normalize_interleaved(row, image.width, channels_, scales_, to);
    }
  }
}

template <class Number>
void Normalizer::run_as(const ImageView& image, std::span<std::byte> to, bool mirrored) const {
  auto* numbers = reinterpret_cast<Number*>(to.data());
  if (format_.channels_first) {
    run_planar(image, numbers, mirrored);
  } else {
    run_interleaved(image, numbers, mirrored);
  }
}

void Normalizer::run(const ImageView& image, std::span<std::byte> to, bool mirrored) const {
  check_image(image);
  if (image.dtype != DType::kUInt8 || image.channels != channels_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an image with {} channels of {}: expected {} of uint8", image.channels,
                            to_string(image.dtype), channels_));
  }
  const std::size_t size = size_of(format_.dtype);
  const std::size_t bytes = static_cast<std::size_t>(image.width * image.height * channels_) * size;
  if (to.size() != bytes || reinterpret_cast<std::uintptr_t>(to.data()) % size != 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} x {} pixels of {} {} need {} aligned bytes, the memory for them has "
                    "{}",
                    image.width, image.height, channels_, to_string(format_.dtype), bytes,
                    to.size()));
  }
  if (format_.dtype == DType::kFloat32) {
    run_as<float>(image, to, mirrored);
  } else if (format_.dtype == DType::kBFloat16) {
    run_as<std::uint16_t>(image, to, mirrored);
  } else if (format_.dtype == DType::kFloat16) {
    run_as<Half>(image, to, mirrored);
  } else {
    run_as<std::uint8_t>(image, to, mirrored);
  }
}

void Normalizer::run_patches(const ImageView& image, const PatchLayout& layout,
                             std::span<std::byte> to) const {
  check_image(image);
  const std::int64_t block = layout.patch * layout.merge;
  const auto element = static_cast<std::int64_t>(size_of(format_.dtype));
  const std::int64_t bytes = image.width * image.height * channels_ * layout.temporal * element;
  if (!format_.channels_first || image.width % block != 0 || image.height % block != 0 ||
      std::ssize(to) != bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} x {} pixels in {} bytes, channels {}: expected sides that are "
                            "multiples of {}, {} bytes, channels first",
                            image.width, image.height, to.size(),
                            format_.channels_first ? "first" : "last", block, bytes));
  }
  const std::int64_t columns = image.width / layout.patch;
  const std::int64_t piece = layout.patch * element;  // a row of one channel of a patch
  const std::int64_t frame = layout.patch * piece;
  const std::int64_t channel_bytes = layout.temporal * frame;
  const std::int64_t patch_bytes = channels_ * channel_bytes;
  std::vector<std::byte> row(static_cast<std::size_t>(image.width * channels_ * element));
  for (std::int64_t y = 0; y < image.height; ++y) {
    run({.data = image.row(y),
         .width = image.width,
         .height = 1,
         .channels = image.channels,
         .row_bytes = image.row_bytes,
         .dtype = image.dtype},
        row);
    const std::int64_t patch_row = y / layout.patch;
    // The patches of this row: squares of `merge` patches, then rows of patches in them.
    const std::int64_t first =
        patch_row / layout.merge * layout.merge * columns + patch_row % layout.merge * layout.merge;
    const std::byte* from = row.data();
    for (int channel = 0; channel < channels_; ++channel) {
      const std::int64_t offset = channel * channel_bytes + y % layout.patch * piece;
      for (std::int64_t column = 0; column < columns; ++column, from += piece) {
        const std::int64_t place =
            first + column / layout.merge * layout.merge * layout.merge + column % layout.merge;
        std::byte* result = to.data() + place * patch_bytes + offset;
        for (std::int64_t copy = 0; copy < layout.temporal; ++copy, result += frame) {
          std::memcpy(result, from, static_cast<std::size_t>(piece));
        }
      }
    }
  }
}

}  // namespace energon
