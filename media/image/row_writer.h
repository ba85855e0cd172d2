// Receives the rows of all codecs: converts them to the requested format while they are in the
// cache, and lets a codec write directly into the caller's memory if no conversion is needed.
// Internal to media/image.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "energon/sample/sample.h"
#include "media/image/image_decoder.h"

namespace energon {

/// The rows that a codec produces: interleaved, in the orientation of the file.
struct RowFormat {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 0;  ///< 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha
  int bits = 8;      ///< 8, or 16 in native byte order

  std::int64_t pixel_bytes() const { return std::int64_t{channels} * (bits / 8); }
  std::int64_t row_bytes() const { return width * pixel_bytes(); }
};

/// The format of the result. `data` has memory for exactly the pixels of the rows.
struct RowTarget {
  std::byte* data = nullptr;
  DType dtype = DType::kUInt8;  ///< or kFloat32
  PixelLayout layout = PixelLayout::kChannelsLast;
  int channels = 0;
  int orientation = 1;  ///< to apply; 1 leaves the rows as they are
};

/// Rows for a codec to write.
struct RowBand {
  std::byte* first = nullptr;
  std::ptrdiff_t stride = 0;  ///< bytes from a row to the next; negative from bottom to top
  std::int64_t rows = 0;      ///< at least 1
};

/// Rows may arrive in any order. A codec either writes into rows() and then calls done(), or passes
/// its own rows to put(). Not thread-safe.
class RowWriter {
 public:
  RowWriter(const RowFormat& from, const RowTarget& to);

  /// Memory for rows [y, y + rows), up to the last row at most. Valid until the next call, or
  /// forever if is_direct().
  RowBand rows(std::int64_t y);
  /// Reports that rows [y, y + count) are written. `y` is that of the last rows().
  void done(std::int64_t y, std::int64_t count);
  /// Copies rows [y, y + count) from other memory.
  void put(std::int64_t y, const std::byte* first, std::ptrdiff_t stride, std::int64_t count);

  /// Whether rows() is the caller's memory, so that nothing is copied.
  bool is_direct() const { return direct_; }

 private:
  void put_row(std::int64_t y, const std::byte* row);
  void store(const std::byte* row, int bits, std::byte* first) const;
  void store_transposed(const std::byte* row, int bits, std::byte* first) const;
  const std::byte* with_channels(const std::byte* row);
  const std::byte* with_eight_bits(const std::byte* row);
  const std::byte* mirrored(const std::byte* row, int bits);

  const RowFormat from_;
  const RowTarget to_;
  bool direct_ = false;

  // Bytes in the target from an element to that of the next stored column, row and channel.
  std::ptrdiff_t column_step_ = 0;
  std::ptrdiff_t row_step_ = 0;
  std::ptrdiff_t channel_step_ = 0;
  std::byte* origin_ = nullptr;  // the first stored pixel

  std::int64_t band_rows_ = 0;
  std::unique_ptr<std::byte[]> band_;     // the memory of rows() if not is_direct()
  std::unique_ptr<std::byte[]> work_[3];  // a row after conversion of channels, bits, order
};

}  // namespace energon
