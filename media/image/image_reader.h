// The interface of an image codec: open an image, request a region and scale, read rows into a
// RowWriter. Internal to media/image.
//
// To add a codec, implement the interface in its own file, declare its open_…() below, and add a
// line to image_reader.cpp.

#pragma once

#include <csetjmp>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>

#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/image/image_decoder.h"
#include "media/image/row_writer.h"

namespace energon {

/// A request to start().
struct ReadPlan {
  /// In stored pixels; must be inside the image.
  PixelBox crop;
  /// As in RegionRequest, but for the stored image, before orientation; at most the crop's size.
  std::int64_t least_width = 0;
  std::int64_t least_height = 0;
  /// Channels of the result. A codec may produce them itself or leave the conversion to RowWriter.
  int channels = 0;
};

/// The rows that read() will produce.
struct ReadResult {
  RowFormat rows;
  FractionalBox box;  ///< the crop within the rows
};

/// Constructors check DecodeLimits::max_pixels. Call info() and frames() at any time, start() once,
/// then read() once. The encoded bytes must outlive the reader. Not thread-safe.
class ImageReader {
 public:
  virtual ~ImageReader() = default;

  /// Without `frames`.
  virtual const ImageInfo& info() const = 0;
  virtual std::int64_t frames() { return 1; }

  /// Checks the memory that the codec itself needs. By default, read() produces the whole image.
  virtual ReadResult start(const ReadPlan& plan);
  virtual void read(RowWriter& rows) = 0;
};

// Throw as probe_image(). Each is defined only in builds with its library.
std::unique_ptr<ImageReader> open_jpeg(ByteView encoded, const DecodeLimits& limits);
std::unique_ptr<ImageReader> open_png(ByteView encoded, const DecodeLimits& limits);
std::unique_ptr<ImageReader> open_webp(ByteView encoded, const DecodeLimits& limits);
std::unique_ptr<ImageReader> open_gif(ByteView encoded, const DecodeLimits& limits);
std::unique_ptr<ImageReader> open_tiff(ByteView encoded, const DecodeLimits& limits);

/// Opens `encoded` with the codec of its format. Throws Error as probe_image(); kUnsupported that
/// names the package if this build lacks the codec.
std::unique_ptr<ImageReader> open_image(ByteView encoded, const DecodeLimits& limits);

// --- For codecs ---

/// width * height * pixel_bytes, or the largest number if the product overflows. Requires: no
/// argument is negative.
constexpr std::uint64_t image_bytes(std::int64_t width, std::int64_t height,
                                    std::int64_t pixel_bytes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t bytes = 1;
  for (const std::int64_t factor : {width, height, pixel_bytes}) {
    const auto next = static_cast<std::uint64_t>(factor);
    bytes = next != 0 && bytes > kMost / next ? kMost : bytes * next;
  }
  return bytes;
}

/// check_decoded_bytes() of image_bytes().
inline void check_image_bytes(const char* what, std::int64_t width, std::int64_t height,
                              std::int64_t pixel_bytes, const DecodeLimits& limits) {
  check_decoded_bytes(what, image_bytes(width, height, pixel_bytes), limits);
}

/// Runs `body`, which calls a C library that reports errors by longjmp(jump); false if it did.
/// Requires: neither `body` nor its callees have objects with destructors, which would not run.
template <class Body>
bool runs_to_end(std::jmp_buf& jump, const Body& body) {
  if (setjmp(jump) != 0) {
    return false;
  }
  body();
  return true;
}

}  // namespace energon
