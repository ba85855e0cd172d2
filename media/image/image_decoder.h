// Decodes images into tensors, and parts of images for transforms that crop and resize. Reads
// headers without decoding pixels.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/tensor_decoder.h"

namespace energon {

// --- Rectangles of pixels ---

/// Columns [x, x + width) and rows [y, y + height).
template <class Number>
struct BoxOf {
  Number x = 0;
  Number y = 0;
  Number width = 0;
  Number height = 0;

  bool operator==(const BoxOf&) const = default;
};

using PixelBox = BoxOf<std::int64_t>;
/// Edges may be inside pixels.
using FractionalBox = BoxOf<double>;

// --- Formats and headers ---

/// The supported formats. They are recognized by their first bytes, never by the name of a part.
///
/// JPEG: ITU-T T.81. PNG: W3C PNG third edition. WebP: RFC 9649. GIF: GIF89a. TIFF: TIFF 6.0 and
/// BigTIFF.
enum class ImageFormat : std::uint8_t { kJpeg, kPng, kWebp, kGif, kTiff };

/// "JPEG", "PNG", "WebP", "GIF", "TIFF".
std::string_view to_string(ImageFormat format);

/// The format by its first bytes; nullopt if they match none. Does not check the rest. Thread-safe.
std::optional<ImageFormat> image_format_of(ByteView encoded);

/// The name of an unsupported image format by its first bytes, such as "BMP", or an empty string.
std::string_view foreign_image_format(ByteView encoded);

/// What the header of an image declares.
struct ImageInfo {
  ImageFormat format = ImageFormat::kJpeg;
  std::int64_t width = 0;   ///< in pixels, as stored: before the orientation is applied
  std::int64_t height = 0;  ///< likewise
  /// 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha. Palettes count as 3 or, with a transparent
  /// entry, 4; CMYK counts as 3 because it is converted to RGB.
  int channels = 0;
  int bits = 8;             ///< per channel after reading: 8 or 16. Fewer are widened to 8.
  int orientation = 1;      ///< 1 to 8, as in EXIF; 1 if absent or damaged
  std::int64_t frames = 1;  ///< images in the file; only the first is decoded
};

/// The orientation that decoding applies; 1 if it applies none. The orientation of a TIFF is always
/// applied, as in Pillow and thus in Energon; that of other formats only if `apply_orientation` is
/// set.
constexpr int applied_orientation(const ImageInfo& info, bool apply_orientation) {
  return apply_orientation || info.format == ImageFormat::kTiff ? info.orientation : 1;
}

/// Width and height in pixels.
struct ImageSize {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// The size of the whole decoded image, after applied_orientation().
constexpr ImageSize decoded_size(const ImageInfo& info, bool apply_orientation) {
  constexpr int kFirstTransposed = 5;  // orientations from here on swap width and height
  if (applied_orientation(info, apply_orientation) >= kFirstTransposed) {
    return {.width = info.height, .height = info.width};
  }
  return {.width = info.width, .height = info.height};
}

/// Reads headers, not pixels. Throws Error: kCorruptData if the data is not an image or its header
/// is damaged, kUnsupported for unsupported formats and variants, kResourceExhausted above
/// `limits`. Thread-safe.
ImageInfo probe_image(ByteView encoded, const DecodeLimits& limits = {});

// --- The layout of decoded images, and Energon's names for common choices ---

/// Conversions: gray to RGB repeats the value. RGB to gray is Pillow's
/// (19595 R + 38470 G + 7471 B + 32768) >> 16; for a YCbCr JPEG, the stored luma, as in libjpeg.
/// Alpha is dropped without blending; missing alpha is opaque. CMYK becomes RGB as in Pillow,
/// without a color profile.
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
  /// Applies the EXIF orientation. Energon and torchvision do not. The orientation of TIFFs is
  /// always applied, as in Pillow and Energon.
  bool apply_orientation = false;
  DecodeLimits limits = {};
};

/// The options for one of Energon's 17 mode names; nullopt for any other. Names with 8 mean uint8
/// of 0..255, others float32 of 0..1. Names with torch mean channels first, others channels last.
/// "torch" is "torchrgb". Names with pil mean uint8, channels last; "pil" keeps the channels as
/// stored.
std::optional<ImageOptions> image_options_of_mode(std::string_view mode);

/// The names, in the order of Energon's documentation.
std::span<const std::string_view> image_mode_names();

// --- Whole images ---

/// Decodes the first image of a file to uint8 or float32, in the shape of ImageOptions::layout. A
/// damaged image is an error even if most pixels could be decoded; missing pixels are not filled
/// with gray. Codec warnings count as damage unless they cannot affect pixels.
class ImageDecoder final : public TensorDecoder {
 public:
  /// Throws Error (kInvalidArgument) if options.dtype is neither kUInt8 nor kFloat32.
  explicit ImageDecoder(const ImageOptions& options = {});

  TensorSpec probe(ByteView encoded) const override;

  /// Also throws Error (kInvalidArgument) if `to` has the wrong size or alignment.
  void decode_into(ByteView encoded, std::span<std::byte> to) const override;

 private:
  ImageOptions options_;
};

// --- A part of an image, no larger than needed ---

struct RegionRequest {
  /// In pixels of the whole decoded image, after applied_orientation().
  PixelBox crop;
  /// The crop may be decoded smaller if it keeps at least this many pixels. 0, or more than the
  /// crop has, means full size.
  std::int64_t least_width = 0;
  std::int64_t least_height = 0;
};

struct DecodedRegion {
  Buffer pixels;  ///< uint8 (height, width, channels), without padding
  int width = 0;
  int height = 0;
  int channels = 0;
  /// The crop within these pixels. The pixels around it also belong to the image, but those at the
  /// edge of the region may differ by a few levels from those of the whole image.
  FractionalBox box;
};

class ImageReader;

/// An encoded image whose header is read once, for requests that depend on its size. Borrows the
/// bytes. Not thread-safe.
class EncodedImage {
 public:
  /// Throws Error as probe_image().
  EncodedImage(ByteView encoded, const DecodeLimits& limits);
  EncodedImage(EncodedImage&&) noexcept;
  EncodedImage& operator=(EncodedImage&&) noexcept;
  ~EncodedImage();

  /// `frames` is always 1: images after the first are not counted.
  const ImageInfo& info() const;

  /// Decodes `request`. For a JPEG, scales while decoding, to 1/8, 1/4 or 1/2, and computes only
  /// the blocks of the crop; damage after the last row of the crop is not noticed. A WebP is
  /// decoded down to the last row of the crop. Other formats are decoded whole. At full size the
  /// pixels of the crop equal those of ImageDecoder; 16-bit images become 8-bit.
  ///
  /// Requires: not called before. Throws Error: kInvalidArgument if the crop is empty or not inside
  /// the image; and like ImageDecoder. limits.max_pixels applies to the whole image, max_bytes to
  /// the decoded region. The result owns its memory, from `memory`.
  DecodedRegion decode(const RegionRequest& request, ImageChannels channels, bool apply_orientation,
                       BufferAllocator& memory);

 private:
  std::unique_ptr<ImageReader> reader_;
  DecodeLimits limits_;
};

/// Opens an image for a single EncodedImage::decode(). Throws as the constructor and decode().
/// Thread-safe if `memory` is.
DecodedRegion decode_region(ByteView encoded, const RegionRequest& request, ImageChannels channels,
                            bool apply_orientation, const DecodeLimits& limits,
                            BufferAllocator& memory);

}  // namespace energon
