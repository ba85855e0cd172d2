// Decodes a part of an image, no larger than needed, for transforms that crop and resize.

#pragma once

#include <cstdint>
#include <memory>

#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/image/image_info.h"
#include "media/image/image_options.h"
#include "media/image/pixel_box.h"

namespace energon {

struct RegionRequest {
  /// In pixels of the whole image as it is decoded, after applied_orientation() (image_info.h).
  PixelBox crop;
  /// The crop may be decoded smaller as long as it keeps at least this many pixels. 0 or more than
  /// the crop has: it is decoded at full size.
  std::int64_t least_width = 0;
  std::int64_t least_height = 0;
};

struct DecodedRegion {
  Buffer pixels;  ///< uint8, rows from the top, channels interleaved, no padding:
                  ///< height*width*channels
  int width = 0;
  int height = 0;
  int channels = 0;
  /// Where the crop lies in these pixels. The pixels around it are the image's too, but those at
  /// the edge of the region may differ by a few levels from those of the whole image.
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

  /// All but `frames`, which stays 1: images behind the first are not counted.
  const ImageInfo& info() const;

  /// Decodes `request`. A JPEG is scaled while it is decoded, to 1/8, 1/4 or 1/2, and only the
  /// blocks of the crop are computed; damage behind the last row of the crop is not seen. A WebP is
  /// decoded down to the last row of the crop. Others are decoded whole. At full size the pixels of
  /// the crop are those of ImageDecoder; 16-bit images become 8-bit.
  ///
  /// Requires: it was not called before. Throws Error: kInvalidArgument if the crop is empty or not
  /// inside the image; else as ImageDecoder. limits.max_pixels is for the whole image, max_bytes
  /// for what is decoded. The result owns its memory, from `memory`.
  DecodedRegion decode(const RegionRequest& request, ImageChannels channels, bool apply_orientation,
                       BufferAllocator& memory);

 private:
  std::unique_ptr<ImageReader> reader_;
  DecodeLimits limits_;
};

/// EncodedImage::decode() of an image that is opened for this one request. Throws as both.
/// Thread-safe if `memory` is.
DecodedRegion decode_region(ByteView encoded, const RegionRequest& request, ImageChannels channels,
                            bool apply_orientation, const DecodeLimits& limits,
                            BufferAllocator& memory);

}  // namespace energon
