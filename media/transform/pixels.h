// Checks and parts of decoded pixels. Internal to media/transform.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/image/image_decoder.h"
#include "media/transform/image_transform.h"

namespace energon {

/// Throws Error (kInvalidArgument) unless the view is one that the transforms take.
void check_image(const ImageView& image);

/// Throws Error (kInvalidArgument) unless both are in [1, kMaxImageSide]. `what` begins the
/// message: "the resized image".
void check_image_size(const char* what, std::int64_t width, std::int64_t height);

/// Throws Error (kInvalidArgument) unless `to` has exactly the bytes of an image of width * height
/// pixels like those of `image`, and is aligned for them.
void check_room(const ImageView& image, std::int64_t width, std::int64_t height,
                std::span<std::byte> to);

/// The pixels in `box`: the same memory. Throws Error (kInvalidArgument) unless `box` has pixels
/// and is inside of the image.
ImageView crop(const ImageView& image, const PixelBox& box);

/// The pixels that are in both; a box without pixels if there are none.
PixelBox intersection(const PixelBox& a, const PixelBox& b);

}  // namespace energon
