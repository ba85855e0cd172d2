// How decoded images are laid out, and the names that Energon has for common choices.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "energon/sample/sample.h"
#include "media/decode_limits.h"

namespace energon {

/// Conversions: gray to RGB repeats the value. RGB to gray is Pillow's
/// (19595 R + 38470 G + 7471 B + 32768) >> 16; of a YCbCr JPEG it is the stored luma instead, as
/// libjpeg does it. Alpha is dropped without blending; where there is none it is opaque. CMYK
/// becomes RGB as in Pillow, without a colour profile.
enum class ImageChannels : std::uint8_t {
  kAsStored,  ///< ImageInfo::channels
  kGray,
  kRgb,
  kRgba
};

enum class PixelLayout : std::uint8_t {
  kChannelsLast,  ///< (H, W, C); (H, W) if there is one channel
  kChannelsFirst  ///< (C, H, W); (1, H, W) if there is one channel
};

struct ImageOptions {
  ImageChannels channels = ImageChannels::kRgb;
  PixelLayout layout = PixelLayout::kChannelsFirst;
  /// kUInt8: 0..255; 16-bit images are rounded: (v * 255 + 32767) / 65535. kFloat32: 0..1, v / 255
  /// or v / 65535, correctly rounded.
  DType dtype = DType::kFloat32;
  /// Turns and mirrors the image by its EXIF orientation. Off: as stored, which is what Energon and
  /// torchvision do. TIFFs are turned in both cases, as in Pillow and Energon.
  bool apply_orientation = false;
  DecodeLimits limits = {};
};

/// The options of one of Energon's 17 names; nothing if `mode` is none of them. With 8: uint8 of
/// 0..255, else float32 of 0..1. With torch: channels first, else last. "torch" is "torchrgb".
/// Names with pil give uint8, channels last; "pil" keeps the channels as stored.
std::optional<ImageOptions> image_options_of_mode(std::string_view mode);

/// The names, in the order of Energon's documentation.
std::span<const std::string_view> image_mode_names();

}  // namespace energon
