#include "bench/support/bare_crop.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

namespace energon::bench {
namespace {

// Errors of our own images end the benchmark.
[[noreturn]] void end_program(j_common_ptr /*codec*/) { std::abort(); }

JSAMPROW as_row(std::byte* bytes) { return reinterpret_cast<JSAMPROW>(bytes); }

// Of 1, 2, 4 and 8 eighths the least at which the crop has enough pixels.
unsigned eighths_of(const PixelBox& crop, std::int64_t side) {
  const std::int64_t width = std::min(crop.width, side);
  const std::int64_t height = std::min(crop.height, side);
  unsigned eighths = 1;
  while (eighths < 8 && (crop.width * eighths < width * 8 || crop.height * eighths < height * 8)) {
    eighths *= 2;
  }
  return eighths;
}

// Whether colours are interpolated, so that a pixel depends on its neighbours.
bool upsamples(const jpeg_decompress_struct& codec) {
  const int block = codec.max_h_samp_factor * codec.min_DCT_scaled_size;
  return std::any_of(codec.comp_info, codec.comp_info + codec.num_components,
                     [block](const jpeg_component_info& component) {
                       return component.h_samp_factor * component.DCT_scaled_size != block;
                     });
}

// Decodes columns of the scaled image, [begin, end) or some more; returns the first.
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

}  // namespace

BareCrop::BareCrop(std::int64_t side, const OutputFormat& format)
    : side_(side),
      normalizer_(format, 3),
      levels_(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3) {}

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
  if (pixels_.size() < bytes) {  // never smaller, because growing clears
    pixels_.resize(bytes);
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
  // What lies around the crop has no influence.
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
                  side_, side_, {}, levels_);
  normalizer_.run(image_view(levels_, side_, side_, 3), to);
}

}  // namespace energon::bench
