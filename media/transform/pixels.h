// Checks and parts of decoded pixels. Internal to media/transform.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/image/image_decoder.h"
#include "media/transform/image_transform.h"

namespace energon {

/// Throws Error (kInvalidArgument) if transforms do not accept the image.
void check_image(const ImageView& image);

/// Throws Error (kInvalidArgument) unless both are in [1, kMaxImageSide]. `what` begins the
/// message: "the resized image".
void check_image_size(const char* what, std::int64_t width, std::int64_t height);

/// Throws Error (kInvalidArgument) unless `to` has exactly the bytes of an image of width * height
/// pixels like those of `image`, and their alignment.
void check_room(const ImageView& image, std::int64_t width, std::int64_t height,
                std::span<std::byte> to);

/// A view of the pixels in `box`. Throws Error (kInvalidArgument) unless `box` has pixels and is
/// inside the image.
ImageView crop(const ImageView& image, const PixelBox& box);

/// The pixels that are in both boxes; an empty box if there are none.
PixelBox intersection(const PixelBox& a, const PixelBox& b);

}  // namespace energon
