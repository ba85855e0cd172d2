#include "bench/support/picture_files.h"

#include <filesystem>

#include <fmt/format.h>

#include "bench/support/encoded_images.h"
#include "io/error.h"

namespace energon::bench {
namespace {

std::string encoded_picture(const std::string& format, std::int64_t number) {
  const std::vector<std::byte> rgb =
      picture(static_cast<std::uint32_t>(number), kPictureWidth, kPictureHeight);
  if (format == "jpg") {
    return encode_jpeg(rgb, kPictureWidth, kPictureHeight, 92);
  }
  if (format == "png") {
    return encode_png(rgb, kPictureWidth, kPictureHeight);
  }
  if (format == "webp") {
    return encode_webp(rgb, kPictureWidth, kPictureHeight, 90);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("pictures are jpg, png or webp, not '{}'", format));
}

}  // namespace

MediaFiles picture_files(const std::string& data_folder, const std::string& format,
                         std::int64_t count) {
  const auto folder =
      std::filesystem::path(data_folder) / fmt::format("pictures-{}-{}", format, count);
  return {{.folder = folder.string(), .parts = {format}, .count = count},
          [&](std::int64_t number) { return std::vector{encoded_picture(format, number)}; }};
}

}  // namespace energon::bench
