// From a JPEG to the tensor of a crop with nothing but libjpeg-turbo and the kernels of
// media/transform, as a loop of one's own would do it: what the benchmark of crops is compared
// with.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/bytes.h"
#include "media/image/pixel_box.h"
#include "media/transform/normalize.h"
#include "media/transform/output_format.h"
#include "media/transform/resize.h"

namespace energon::bench {

/// Keeps its memory from image to image. Not thread-safe: one per thread.
class BareCrop {
 public:
  /// Tensors of (3, side, side) in `format`. Throws Error as Normalizer.
  BareCrop(std::int64_t side, const OutputFormat& format);

  /// Decodes the rows of `crop` and the blocks of its columns, scaled by 1/8, 1/4 or 1/2 where the
  /// crop then still has side * side pixels; resizes with antialiasing and normalises into `to`.
  /// Requires: a valid JPEG in colours, else the program ends; `crop` is inside of it. Throws Error
  /// as Resizer and Normalizer.
  void run(ByteView encoded, const PixelBox& crop, std::span<std::byte> to);

 private:
  struct Decoded {
    ImageView view;
    FractionalBox box;  // of the crop in the view
  };
  Decoded decode(ByteView encoded, const PixelBox& crop);

  const std::int64_t side_;
  const Normalizer normalizer_;
  Resizer resizer_;
  std::vector<std::byte> pixels_;
  std::vector<std::byte> levels_;
};

}  // namespace energon::bench
