// Small pictures for pages: of images, and of frames of video.

#pragma once

#include <cstdint>
#include <string>

#include "io/bytes.h"
#include "media/image/image_info.h"

namespace energon::cli {

/// The longest side, in pixels.
inline constexpr std::int64_t kThumbnailSide = 320;

struct Thumbnail {
  std::string png;  ///< the file
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// The image in `encoded` as decoders give it by default, at most kThumbnailSide on each side: a
/// TIFF is turned by its orientation, others are not. All of it is decoded. `info` describes
/// `encoded`. Throws Error as decode_region().
Thumbnail thumbnail_of_image(ByteView encoded, const ImageInfo& info);

/// The frame in the middle of the video in `file` (the first often is black), stretched to the size
/// that it is coded for. Throws Error as AvDecoder.
Thumbnail thumbnail_of_video(const SharedBytes& file);

}  // namespace energon::cli
