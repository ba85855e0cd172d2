// What a codec has to give: one image that is opened, told what is wanted, and then read into a
// RowWriter. Internal to media/image.
//
// A new codec is a class with this interface in its own file, an open_…() below, and a line in
// image_reader.cpp.

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

/// What start() shall prepare.
struct ReadPlan {
  /// In stored pixels; inside the image.
  PixelBox crop;
  /// As in RegionRequest, in the directions of the stored image; at most the crop's size.
  std::int64_t least_width = 0;
  std::int64_t least_height = 0;
  /// Channels that will be made of the rows. A codec may give them at once or leave it to
  /// RowWriter.
  int channels = 0;
};

/// What read() will give.
struct ReadResult {
  RowFormat rows;
  FractionalBox box;  ///< the crop in them
};

/// Constructors check DecodeLimits::max_pixels. Calls: info() and frames() at any time, start()
/// once, then read() once. The encoded bytes outlive the reader. Not thread-safe.
class ImageReader {
 public:
  virtual ~ImageReader() = default;

  /// All but `frames`.
  virtual const ImageInfo& info() const = 0;
  virtual std::int64_t frames() { return 1; }

  /// Checks memory that the codec itself needs. By default the whole image is given.
  virtual ReadResult start(const ReadPlan& plan);
  virtual void read(RowWriter& rows) = 0;
};

// Throw as probe_image(). Each is defined only in builds that have its library.
std::unique_ptr<ImageReader> open_jpeg(ByteView encoded, const DecodeLimits& limits);
std::unique_ptr<ImageReader> open_png(ByteView encoded, const DecodeLimits& limits);
std::unique_ptr<ImageReader> open_webp(ByteView encoded, const DecodeLimits& limits);
std::unique_ptr<ImageReader> open_gif(ByteView encoded, const DecodeLimits& limits);
std::unique_ptr<ImageReader> open_tiff(ByteView encoded, const DecodeLimits& limits);

/// Opens `encoded` with the codec of its format. Throws Error as probe_image(); kUnsupported that
/// names the package if this build lacks the codec.
std::unique_ptr<ImageReader> open_image(ByteView encoded, const DecodeLimits& limits);

// --- For codecs ---

/// width * height * pixel_bytes, or the greatest number where that is more: sizes of images in
/// memory cannot overflow. None is negative.
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

/// check_decoded_bytes() of that.
inline void check_image_bytes(const char* what, std::int64_t width, std::int64_t height,
                              std::int64_t pixel_bytes, const DecodeLimits& limits) {
  check_decoded_bytes(what, image_bytes(width, height, pixel_bytes), limits);
}

/// Runs `body`, which calls a C library that leaves by longjmp(); false if it left by
/// longjmp(jump). Requires: `body` and what it calls have no object with a destructor, for those
/// would not be destroyed.
template <class Body>
bool runs_to_end(std::jmp_buf& jump, const Body& body) {
  if (setjmp(jump) != 0) {
    return false;
  }
  body();
  return true;
}

}  // namespace energon
