// From an encoded image to the tensor of a training sample, decoding only what is needed.

#pragma once

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/transform/image_transform.h"

namespace energon {

struct TransformedImageOptions {
  /// Turns and mirrors the image by its EXIF orientation. TIFFs are turned in any case.
  bool apply_orientation = false;
  DecodeLimits limits = {};
};

/// Draws what `transform` needs for the image, decodes the part of it that is needed, no larger
/// than needed where the format can be scaled while it is decoded (media/image/image_decoder.h),
/// and runs the transform into new memory of `memory`. The transform must be for 1, 3 or 4
/// channels. Throws Error as EncodedImage and ImageTransform.
Tensor decode_transformed(ByteView encoded, ImageTransform& transform, CallRng& rng,
                          BufferAllocator& memory, const TransformedImageOptions& options = {});

}  // namespace energon
