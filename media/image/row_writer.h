// The one place to which all codecs deliver rows: it converts them to what the caller asked for
// while they are in the cache, and lets a codec write into the caller's memory where nothing is to
// be converted. Internal to media/image.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "energon/sample/sample.h"
#include "media/image/image_decoder.h"

namespace energon {

/// The rows that a codec gives: interleaved, in the orientation of the file.
struct RowFormat {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 0;  ///< 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha
  int bits = 8;      ///< 8, or 16 in the byte order of the machine

  std::int64_t pixel_bytes() const { return std::int64_t{channels} * (bits / 8); }
  std::int64_t row_bytes() const { return width * pixel_bytes(); }
};

/// What is made of them: all of the memory at `data`, which has as many pixels.
struct RowTarget {
  std::byte* data = nullptr;
  DType dtype = DType::kUInt8;  ///< or kFloat32
  PixelLayout layout = PixelLayout::kChannelsLast;
  int channels = 0;
  int orientation = 1;  ///< applied; 1: rows stay as they are
};

/// Rows that a codec may write.
struct RowBand {
  std::byte* first = nullptr;
  std::ptrdiff_t stride = 0;  ///< bytes from a row to the next; negative if they run upwards
  std::int64_t rows = 0;      ///< at least 1
};

/// Rows may come in any order. A codec either writes into rows() and then calls done(), or has rows
/// of its own and calls put(). Not thread-safe.
class RowWriter {
 public:
  RowWriter(const RowFormat& from, const RowTarget& to);

  /// Memory for rows [y, y + rows), which ends at the last row. Valid until the next call, or,
  /// where is_direct(), forever.
  RowBand rows(std::int64_t y);
  /// Rows [y, y + count), with the y of the last rows(), are written.
  void done(std::int64_t y, std::int64_t count);
  /// Takes rows [y, y + count) from other memory.
  void put(std::int64_t y, const std::byte* first, std::ptrdiff_t stride, std::int64_t count);

  /// rows() is the caller's memory: nothing is copied.
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

  // Bytes from an element of the target to the one of the next stored column, row and channel.
  std::ptrdiff_t column_step_ = 0;
  std::ptrdiff_t row_step_ = 0;
  std::ptrdiff_t channel_step_ = 0;
  std::byte* origin_ = nullptr;  // the first stored pixel

  std::int64_t band_rows_ = 0;
  std::unique_ptr<std::byte[]> band_;     // what rows() gives if it is not the target
  std::unique_ptr<std::byte[]> work_[3];  // a row with other channels, bits, order
};

}  // namespace energon
