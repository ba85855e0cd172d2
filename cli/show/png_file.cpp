#include "cli/show/png_file.h"

#include <fmt/format.h>
#include <png.h>

#include "io/error.h"

namespace energon::cli {

std::string png_of_pixels(ByteView pixels, std::int64_t width, std::int64_t height, int channels) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  if (width < 1 || height < 1 || width > 65535 || height > 65535 || channels < 1 || channels > 4 ||
      pixels.size() != static_cast<std::size_t>(width * height * channels)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} bytes are no image of {} x {} with {} channels", pixels.size(),
                            width, height, channels));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = kFormats[channels - 1];
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(size, '\0');
  if (png_image_write_to_memory(&image, png.data(), &size, 0, pixels.data(), 0, nullptr) == 0) {
    throw Error(ErrorCode::kInternal, fmt::format("cannot write a PNG: {}", image.message));
  }
  png.resize(size);
  return png;
}

}  // namespace energon::cli
