// The pictures that the benchmarks of images read.

#pragma once

#include <cstdint>
#include <string>

#include "bench/support/media_files.h"

namespace energon::bench {

/// In pixels.
struct PictureSize {
  int width = 512;
  int height = 384;
};

/// `count` pictures of a size as "jpg" (quality 92; 80 KB of 512 x 384), "png" or "webp" (quality
/// 90), in a folder below `data_folder`. Throws Error as MediaFiles; kInvalidArgument for another
/// format.
MediaFiles picture_files(const std::string& data_folder, const std::string& format,
                         PictureSize size, std::int64_t count);

}  // namespace energon::bench
