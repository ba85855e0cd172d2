// Views of decoded pixels.
//
// Coordinates are continuous: pixel (i, j) covers [i, i + 1) x [j, j + 1), its center is
// (i + 0.5, j + 0.5). x goes to the right, y goes down. Pillow and torch (align_corners=False)
// measure so too.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/image/pixel_box.h"

namespace energon {

/// Longest side of an image that the transforms take.
inline constexpr std::int64_t kMaxImageSide = std::int64_t{1} << 24;
inline constexpr int kMaxImageChannels = 4;

/// Pixels that are borrowed: rows of interleaved channels (height, width, channels), uint8 or
/// float32. All bytes from the first row to the end of the last one must be readable, those between
/// the rows too.
struct ImageView {
  const std::byte* data = nullptr;  ///< of the first row, aligned for the dtype
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 3;            ///< 1 to 4
  std::int64_t row_bytes = 0;  ///< from one row to the next, at least those of its pixels
  DType dtype = DType::kUInt8;

  std::int64_t pixel_bytes() const;
  const std::byte* row(std::int64_t y) const { return data + y * row_bytes; }
};

/// The pixels of a contiguous image. Throws Error (kInvalidArgument) if `pixels` does not have
/// exactly its bytes, and what check_image() throws.
ImageView image_view(ByteView pixels, std::int64_t width, std::int64_t height, int channels,
                     DType dtype = DType::kUInt8);

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

/// The color of pixels that have no source, per channel: levels of 0 to 255 for uint8 (rounded),
/// values for float32.
using FillColor = std::array<double, kMaxImageChannels>;

}  // namespace energon
