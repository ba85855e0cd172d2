// The pictures that the benchmarks of images read.

#pragma once

#include <cstdint>
#include <string>

#include "bench/support/media_files.h"

namespace energon::bench {

inline constexpr int kPictureWidth = 512;
inline constexpr int kPictureHeight = 384;

/// `count` pictures of 512 x 384 pixels as "jpg" (quality 92, 80 KB), "png" or "webp" (quality
/// 90), in a folder below `data_folder`. Throws Error as MediaFiles; kInvalidArgument for another
/// format.
MediaFiles picture_files(const std::string& data_folder, const std::string& format,
                         std::int64_t count);

}  // namespace energon::bench
