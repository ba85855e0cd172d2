#include "bench/support/bare_crop.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

#include "media/transform/pixels.h"

namespace energon::bench {
namespace {

// libswscale reads and writes whole vectors: rows of a plane start at multiples of this.
constexpr std::int64_t kVectorBytes = 64;

// libswscale resizes RGB as YUV: with half the chroma, it would not be faster, and less accurate.
constexpr int kScaling = SWS_BILINEAR | SWS_FULL_CHR_H_INP | SWS_FULL_CHR_H_INT;

// Errors in our own images end the benchmark.
[[noreturn]] void end_program(j_common_ptr /*codec*/) { std::abort(); }

JSAMPROW as_row(std::byte* bytes) { return reinterpret_cast<JSAMPROW>(bytes); }

// The smallest of 1, 2, 4 and 8 eighths at which the crop has enough pixels.
unsigned eighths_of(const PixelBox& crop, std::int64_t side) {
  const std::int64_t width = std::min(crop.width, side);
  const std::int64_t height = std::min(crop.height, side);
  unsigned eighths = 1;
  while (eighths < 8 && (crop.width * eighths < width * 8 || crop.height * eighths < height * 8)) {
    eighths *= 2;
  }
  return eighths;
}

// Whether colors are interpolated, so that a pixel depends on its neighbors.
bool upsamples(const jpeg_decompress_struct& codec) {
  const int block = codec.max_h_samp_factor * codec.min_DCT_scaled_size;
  return std::any_of(codec.comp_info, codec.comp_info + codec.num_components,
                     [block](const jpeg_component_info& component) {
                       return component.h_samp_factor * component.DCT_scaled_size != block;
                     });
}

// Decodes columns of the scaled image, at least [begin, end); returns the first column.
JDIMENSION crop_columns(jpeg_decompress_struct& codec, JDIMENSION begin, JDIMENSION end) {
  if (upsamples(codec)) {
    begin -= std::min<JDIMENSION>(begin, 1);
    end = std::min(end + 1, codec.output_width);
  }
  if (begin == 0 && end == codec.output_width) {
    return 0;
  }
  JDIMENSION width = end - begin;
  jpeg_crop_scanline(&codec, &begin, &width);
  return begin;
}

void read_rows(jpeg_decompress_struct& codec, JDIMENSION first, JDIMENSION rows, std::byte* to) {
  if (first > 0) {
    jpeg_skip_scanlines(&codec, first);
  }
  const std::size_t row_bytes = static_cast<std::size_t>(codec.output_width) * 3;
  for (JDIMENSION done = 0; done < rows;) {
    JSAMPROW lines[4];
    for (JDIMENSION i = 0; i < 4; ++i) {
      lines[i] = as_row(to + (done + i) * row_bytes);
    }
    done += jpeg_read_scanlines(&codec, lines, std::min<JDIMENSION>(rows - done, 4));
  }
}

// Bytes from one row of a resized plane to the next.
std::int64_t stride_of(std::int64_t side) {
  return (side + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
}

void put(float number, float& to) { to = number; }

// The nearest bfloat16, ties to even.
void put(float number, std::uint16_t& to) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  to = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Converts three planes of levels to floats; the compiler vectorizes the inner loop.
template <class Number>
void normalize(const std::byte* levels, std::int64_t side, const OutputFormat& format, Number* to) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const auto scale = static_cast<float>(1 / (255 * format.stddev[channel]));
    const auto offset = static_cast<float>(-format.mean[channel] / format.stddev[channel]);
    for (std::int64_t y = 0; y < side; ++y) {
      for (std::int64_t x = 0; x < side; ++x) {
        const auto level = static_cast<float>(std::to_integer<int>(levels[x]));
        put(level * scale + offset, to[x]);
      }
      levels += stride_of(side);
      to += side;
    }
  }
}

}  // namespace

PixelBox whole_pixels(const PixelBox& crop, std::int64_t side) {
  const std::int64_t step = 8 / eighths_of(crop, side);
  const auto nearest = [step](std::int64_t edge) { return (edge + step / 2) / step * step; };
  const std::int64_t x = nearest(crop.x);
  const std::int64_t y = nearest(crop.y);
  return {.x = x,
          .y = y,
          .width = nearest(crop.x + crop.width) - x,
          .height = nearest(crop.y + crop.height) - y};
}

BareCrop::BareCrop(std::int64_t side, const OutputFormat& format, CropKernels kernels)
    : side_(side),
      format_(format),
      kernels_(kernels),
      normalizer_(format, 3),
      levels_(heap_memory().allocate(static_cast<std::size_t>(
          (kernels == CropKernels::kOwn ? side : stride_of(side)) * side * 3))) {}

BareCrop::Decoded BareCrop::decode(ByteView encoded, const PixelBox& crop) {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  errors.error_exit = end_program;
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = JCS_RGB;
  codec.scale_num = eighths_of(crop, side_);
  codec.scale_denom = 8;
  jpeg_start_decompress(&codec);
  const std::int64_t scale = codec.scale_num;
  const auto low = [scale](std::int64_t pixels) {
    return static_cast<JDIMENSION>(pixels * scale / 8);
  };
  const auto high = [scale](std::int64_t pixels) {
    return static_cast<JDIMENSION>((pixels * scale + 7) / 8);
  };
  const JDIMENSION left = crop_columns(codec, low(crop.x), high(crop.x + crop.width));
  const JDIMENSION top = low(crop.y);
  const JDIMENSION rows = high(crop.y + crop.height) - top;
  const std::int64_t width = codec.output_width;
  const std::size_t bytes = static_cast<std::size_t>(width) * rows * 3;
  if (pixels_.size() < bytes + kVectorBytes) {  // never smaller, because growing clears
    pixels_.resize(bytes + kVectorBytes);
  }
  read_rows(codec, top, rows, pixels_.data());
  jpeg_destroy_decompress(&codec);

  const auto scaled = [scale](std::int64_t pixels) {
    return static_cast<double>(pixels * scale) / 8;
  };
  return {.view = image_view(std::span(pixels_).first(bytes), width, rows, 3),
          .box = {.x = scaled(crop.x) - left,
                  .y = scaled(crop.y) - top,
                  .width = scaled(crop.width),
                  .height = scaled(crop.height)}};
}

void BareCrop::run(ByteView encoded, const PixelBox& crop, std::span<std::byte> to) {
  const Decoded image = decode(encoded, crop);
  switch (kernels_) {
    case CropKernels::kForeign:
      return run_foreign(image, to);
    case CropKernels::kOwn:
      return run_own(image, to);
  }
}

void BareCrop::run_own(const Decoded& image, std::span<std::byte> to) {
  // Pixels around the crop have no influence.
  const PixelBox seen = {
      .x = static_cast<std::int64_t>(image.box.x),
      .y = static_cast<std::int64_t>(image.box.y),
      .width = static_cast<std::int64_t>(std::ceil(image.box.x + image.box.width)) -
               static_cast<std::int64_t>(image.box.x),
      .height = static_cast<std::int64_t>(std::ceil(image.box.y + image.box.height)) -
                static_cast<std::int64_t>(image.box.y)};
  resizer_.resize(energon::crop(image.view, seen),
                  {.x = image.box.x - static_cast<double>(seen.x),
                   .y = image.box.y - static_cast<double>(seen.y),
                   .width = image.box.width,
                   .height = image.box.height},
                  side_, side_, {}, levels_.bytes);
  normalizer_.run(image_view(levels_.bytes, side_, side_, 3), to);
}

void BareCrop::run_foreign(const Decoded& image, std::span<std::byte> to) {
  const ImageView part =
      energon::crop(image.view, {.x = static_cast<std::int64_t>(image.box.x),
                                 .y = static_cast<std::int64_t>(image.box.y),
                                 .width = static_cast<std::int64_t>(image.box.width),
                                 .height = static_cast<std::int64_t>(image.box.height)});
  const auto width = static_cast<int>(part.width);
  const auto height = static_cast<int>(part.height);
  const auto side = static_cast<int>(side_);
  scaler_ =
      ffmpeg_owned(sws_getCachedContext(scaler_.release(), width, height, AV_PIX_FMT_RGB24, side,
                                        side, AV_PIX_FMT_GBRP, kScaling, nullptr, nullptr, nullptr),
                   "a resizer");
  const std::array<const std::uint8_t*, 4> from = {reinterpret_cast<const std::uint8_t*>(part.data),
                                                   nullptr, nullptr, nullptr};
  const std::array<int, 4> from_strides = {static_cast<int>(part.row_bytes), 0, 0, 0};
  auto* planes = reinterpret_cast<std::uint8_t*>(levels_.bytes.data());
  const auto stride = static_cast<int>(stride_of(side_));
  const std::ptrdiff_t plane = stride * side_;
  const std::array<std::uint8_t*, 4> to_planes = {planes + plane, planes + 2 * plane, planes,
                                                  nullptr};  // G, B, R
  const std::array<int, 4> to_strides = {stride, stride, stride, 0};
  ffmpeg_check(sws_scale(scaler_.get(), from.data(), from_strides.data(), 0, height,
                         to_planes.data(), to_strides.data()),
               "resize");
  if (format_.dtype == DType::kFloat32) {
    normalize(levels_.bytes.data(), side_, format_, reinterpret_cast<float*>(to.data()));
  } else {
    normalize(levels_.bytes.data(), side_, format_, reinterpret_cast<std::uint16_t*>(to.data()));
  }
}

}  // namespace energon::bench
