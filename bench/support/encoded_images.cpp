#include "bench/support/encoded_images.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>
#include <webp/decode.h>
#include <webp/encode.h>

#include "io/error.h"

namespace energon::bench {

// --- Images ---

namespace {

[[noreturn]] void fail(const char* what) { throw Error(ErrorCode::kCorruptData, what); }

// Errors in our own images end the benchmark.
[[noreturn]] void stop(j_common_ptr /*codec*/) { std::abort(); }

unsigned char* as_chars(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* as_chars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace

std::vector<std::byte> picture(std::uint32_t seed, int width, int height) {
  std::vector<std::byte> rgb;
  rgb.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  std::uint32_t noise = seed * 2654435761U + 1;
  const double phase = seed % 97;
  std::vector<double> waves;  // of a row, precomputed because the sines take most of the time
  for (int x = 0; x < width; ++x) {
    for (int channel = 0; channel < 3; ++channel) {
      waves.push_back(std::sin((x * (channel + 1) + phase) / 31));
    }
  }
  for (int y = 0; y < height; ++y) {
    const double height_wave = std::cos(y / 23.0);
    for (int x = 0; x < width; ++x) {
      const bool is_inside = (x / 37 + y / 29 + static_cast<int>(seed)) % 3 == 0;
      for (int channel = 0; channel < 3; ++channel) {
        noise = noise * 1664525U + 1013904223U;
        const double wave = waves[static_cast<std::size_t>(x * 3 + channel)] * height_wave * 60;
        const double level =
            110 + wave + (is_inside ? 50 : 0) + static_cast<double>(noise >> 27) - 16;
        rgb.push_back(static_cast<std::byte>(std::lround(level)));
      }
    }
  }
  return rgb;
}

std::string encode_jpeg(std::span<const std::byte> rgb, int width, int height, int quality) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  errors.error_exit = stop;
  jpeg_create_compress(&codec);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type
  jpeg_mem_dest(&codec, &bytes, &size);
  codec.image_width = static_cast<JDIMENSION>(width);
  codec.image_height = static_cast<JDIMENSION>(height);
  codec.input_components = 3;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, quality, TRUE);
  jpeg_start_compress(&codec, TRUE);
  while (codec.next_scanline < codec.image_height) {
    const auto row = static_cast<std::size_t>(codec.next_scanline) * codec.image_width * 3;
    JSAMPROW begin = const_cast<JSAMPROW>(as_chars(rgb.data() + row));  // only read
    jpeg_write_scanlines(&codec, &begin, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::string encoded(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc): allocated by libjpeg
  return encoded;
}

std::string encode_png(std::span<const std::byte> rgb, int width, int height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string encoded(size, '\0');
  if (png_image_write_to_memory(&image, encoded.data(), &size, 0, rgb.data(), 0, nullptr) == 0) {
    fail(image.message);
  }
  encoded.resize(size);
  return encoded;
}

std::string encode_webp(std::span<const std::byte> rgb, int width, int height, float quality) {
  std::uint8_t* bytes = nullptr;
  const std::size_t size =
      WebPEncodeRGB(as_chars(rgb.data()), width, height, width * 3, quality, &bytes);
  std::string encoded(reinterpret_cast<const char*>(bytes), size);
  WebPFree(bytes);
  return encoded;
}

void bare_jpeg(ByteView encoded, std::span<std::byte> to) {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  errors.error_exit = stop;
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, as_chars(encoded.data()), encoded.size());
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = JCS_RGB;
  jpeg_start_decompress(&codec);
  const std::size_t row_bytes = static_cast<std::size_t>(codec.output_width) * 3;
  if (row_bytes * codec.output_height > to.size()) {
    fail("the buffer is too small for the JPEG");
  }
  while (codec.output_scanline < codec.output_height) {
    JSAMPROW rows[4];
    const JDIMENSION left = codec.output_height - codec.output_scanline;
    for (JDIMENSION i = 0; i < 4; ++i) {
      rows[i] = as_chars(to.data() + (codec.output_scanline + i) * row_bytes);
    }
    jpeg_read_scanlines(&codec, rows, left < 4 ? left : 4);
  }
  jpeg_finish_decompress(&codec);
  jpeg_destroy_decompress(&codec);
}

void bare_png(ByteView encoded, std::span<std::byte> to) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_read_fn(png, &encoded, [](png_structp of, png_bytep into, std::size_t size) {
    auto& left = *static_cast<ByteView*>(png_get_io_ptr(of));
    if (size > left.size()) {
      png_error(of, "end of the data");
    }
    std::memcpy(into, left.data(), size);
    left = left.subspan(size);
  });
  png_read_info(png, info);
  const std::size_t row_bytes = png_get_rowbytes(png, info);
  const std::size_t rows = png_get_image_height(png, info);
  if (row_bytes * rows > to.size()) {
    fail("the buffer is too small for the PNG");
  }
  for (std::size_t row = 0; row < rows; ++row) {
    png_read_row(png, as_chars(to.data() + row * row_bytes), nullptr);
  }
  png_read_end(png, nullptr);
  png_destroy_read_struct(&png, &info, nullptr);
}

void bare_webp(ByteView encoded, std::span<std::byte> to) {
  int width = 0;
  int height = 0;
  if (WebPGetInfo(as_chars(encoded.data()), encoded.size(), &width, &height) == 0 ||
      WebPDecodeRGBInto(as_chars(encoded.data()), encoded.size(), as_chars(to.data()), to.size(),
                        width * 3) == nullptr) {
    fail("the WebP is damaged");
  }
}

// --- Files ---

namespace {

std::string encoded_picture(const std::string& format, PictureSize size, std::int64_t number) {
  const std::vector<std::byte> rgb =
      picture(static_cast<std::uint32_t>(number), size.width, size.height);
  if (format == "jpg") {
    return encode_jpeg(rgb, size.width, size.height, 92);
  }
  if (format == "png") {
    return encode_png(rgb, size.width, size.height);
  }
  if (format == "webp") {
    return encode_webp(rgb, size.width, size.height, 90);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("pictures are jpg, png or webp, not '{}'", format));
}

}  // namespace

MediaFiles picture_files(const std::string& data_folder, const std::string& format,
                         PictureSize size, std::int64_t count) {
  const std::string name =
      fmt::format("pictures-{}-{}x{}-{}", format, size.width, size.height, count);
  return {{.folder = (std::filesystem::path(data_folder) / name).string(),
           .parts = {format},
           .count = count},
          [&](std::int64_t number) { return std::vector{encoded_picture(format, size, number)}; }};
}

}  // namespace energon::bench
