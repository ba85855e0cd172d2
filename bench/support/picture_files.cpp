#include "bench/support/picture_files.h"

#include <filesystem>

#include <fmt/format.h>

#include "bench/support/encoded_images.h"
#include "io/error.h"

namespace energon::bench {
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
