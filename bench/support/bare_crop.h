// From a JPEG to the tensor of a crop without a loader, as in a hand-written loop: the baseline of
// the crop benchmark. libjpeg-turbo decodes; either third-party code or our own does the rest.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/support/ffmpeg_owners.h"
#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "media/image/image_decoder.h"
#include "media/transform/normalize.h"
#include "media/transform/pixels.h"
#include "media/transform/resize.h"

namespace energon::bench {

/// The code that turns the decoded region into a tensor.
enum class CropKernels {
  kForeign,  ///< libswscale (antialiased, bilinear), then a plain loop that normalizes
  kOwn,      ///< Resizer and Normalizer of media/transform
};

/// Reuses its memory for all images. Not thread-safe: one per thread.
class BareCrop {
 public:
  /// Tensors of (3, side, side) in `format`, which is float32 or bfloat16 for kForeign. Throws
  /// Error as Normalizer.
  BareCrop(std::int64_t side, const OutputFormat& format, CropKernels kernels);

  /// Decodes the rows of `crop` and the blocks of its columns, scaled by 1/8, 1/4 or 1/2 if the
  /// crop then still has side * side pixels; resizes with antialiasing and normalizes into `to`.
  /// Requires: a valid color JPEG, otherwise the program ends; `crop` is inside of it, and for
  /// kForeign the result of whole_pixels(). Throws Error as Resizer and Normalizer; kInternal.
  void run(ByteView encoded, const PixelBox& crop, std::span<std::byte> to);

 private:
  struct Decoded {
    ImageView view;
    FractionalBox box;  // the crop within the view
  };
  Decoded decode(ByteView encoded, const PixelBox& crop);
  void run_own(const Decoded& image, std::span<std::byte> to);
  void run_foreign(const Decoded& image, std::span<std::byte> to);

  const std::int64_t side_;
  const OutputFormat format_;
  const CropKernels kernels_;
  const Normalizer normalizer_;
  const Buffer levels_;  // levels after the resize
  Resizer resizer_;
  FfmpegPtr<SwsContext> scaler_;
  std::vector<std::byte> pixels_;
};

/// `crop` with its edges at the nearest pixels of the image as BareCrop decodes it, because
/// libswscale resizes whole pixels only. Requires: sides of the image are multiples of 8.
PixelBox whole_pixels(const PixelBox& crop, std::int64_t side);

}  // namespace energon::bench
