#include "media/image/row_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "media/image/orientation.h"
#include "media/image/pixel_rows.h"

namespace energon {
namespace {

// Rows that a codec produces before they are converted. Small, because the L1 cache also holds data
// of the codec: with 16 rows of 512 pixels, decoding to planes takes a seventh longer than with 5.
constexpr std::int64_t kBandBytes = 8192;
constexpr std::int64_t kMostBandRows = 16;

std::unique_ptr<std::byte[]> new_row(std::int64_t bytes) {
  return std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
}

const std::uint8_t* as_u8(const std::byte* row) {
  return reinterpret_cast<const std::uint8_t*>(row);
}
const std::uint16_t* as_u16(const std::byte* row) {
  return reinterpret_cast<const std::uint16_t*>(row);
}

template <class In, class Out>
Out converted(In value) {
  if constexpr (std::is_same_v<Out, float>) {
    return static_cast<float>(value) / static_cast<float>(std::numeric_limits<In>::max());
  } else {
    return value;
  }
}

template <class In, class Out>
void scatter(const std::byte* row, const RowFormat& format, std::byte* first,
             std::ptrdiff_t column_step, std::ptrdiff_t channel_step) {
  const In* value = reinterpret_cast<const In*>(row);
  for (std::int64_t x = 0; x < format.width; ++x, first += column_step) {
    for (int channel = 0; channel < format.channels; ++channel, ++value) {
      const Out out = converted<In, Out>(*value);
      std::memcpy(first + channel * channel_step, &out, sizeof(out));
    }
  }
}

}  // namespace

RowWriter::RowWriter(const RowFormat& from, const RowTarget& to) : from_(from), to_(to) {
  const bool transposed = transposes(to.orientation);
  const bool last = to.layout == PixelLayout::kChannelsLast || to.channels == 1;
  const auto element = static_cast<std::ptrdiff_t>(size_of(to.dtype));
  const std::ptrdiff_t out_width = transposed ? from.height : from.width;
  const std::ptrdiff_t pixel = last ? to.channels * element : element;
  channel_step_ = last ? element : from.width * from.height * element;
  column_step_ = transposed ? out_width * pixel : pixel;
  row_step_ = transposed ? pixel : out_width * pixel;
  origin_ = to.data;
  if (mirrors_columns(to.orientation)) {
    origin_ += (from.width - 1) * column_step_;
    column_step_ = -column_step_;
  }
  if (mirrors_rows(to.orientation)) {
    origin_ += (from.height - 1) * row_step_;
    row_step_ = -row_step_;
  }
  direct_ = last && from.channels == to.channels && from.bits == 8 && to.dtype == DType::kUInt8 &&
            !transposed && !mirrors_columns(to.orientation);
  band_rows_ = std::clamp<std::int64_t>(kBandBytes / from.row_bytes(), 1, kMostBandRows);
}

RowBand RowWriter::rows(std::int64_t y) {
  if (direct_) {
    return {origin_ + y * row_step_, row_step_, from_.height - y};
  }
  if (band_ == nullptr) {
    band_ = new_row(band_rows_ * from_.row_bytes());
  }
  return {band_.get(), from_.row_bytes(), std::min(band_rows_, from_.height - y)};
}

void RowWriter::done(std::int64_t y, std::int64_t count) {
  if (!direct_) {
    put(y, band_.get(), from_.row_bytes(), count);
  }
}

void RowWriter::put(std::int64_t y, const std::byte* first, std::ptrdiff_t stride,
                    std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    put_row(y + i, first + i * stride);
  }
}

void RowWriter::put_row(std::int64_t y, const std::byte* row) {
  int bits = from_.bits;
  row = with_channels(row);
  if (bits == 16 && to_.dtype == DType::kUInt8) {
    row = with_eight_bits(row);
    bits = 8;
  }
  std::byte* first = origin_ + y * row_step_;
  if (transposes(to_.orientation)) {
    store_transposed(row, bits, first);
    return;
  }
  if (mirrors_columns(to_.orientation)) {
    row = mirrored(row, bits);
    first += (from_.width - 1) * column_step_;
  }
  store(row, bits, first);
}

void RowWriter::store(const std::byte* row, int bits, std::byte* first) const {
  const bool planes = to_.layout == PixelLayout::kChannelsFirst && to_.channels > 1;
  const std::int64_t values = from_.width * to_.channels;
  if (to_.dtype == DType::kUInt8) {
    if (planes) {
      split_row(as_u8(row), from_.width, to_.channels, reinterpret_cast<std::uint8_t*>(first),
                channel_step_);
    } else {
      std::memcpy(first, row, static_cast<std::size_t>(values));
    }
    return;
  }
  float* to = reinterpret_cast<float*>(first);
  const std::ptrdiff_t plane_step = channel_step_ / static_cast<std::ptrdiff_t>(sizeof(float));
  if (bits == 8) {
    planes ? split_row(as_u8(row), from_.width, to_.channels, to, plane_step)
           : scale_row(as_u8(row), values, to);
  } else {
    planes ? split_row(as_u16(row), from_.width, to_.channels, to, plane_step)
           : scale_row(as_u16(row), values, to);
  }
}

void RowWriter::store_transposed(const std::byte* row, int bits, std::byte* first) const {
  const RowFormat format{.width = from_.width, .height = 1, .channels = to_.channels, .bits = bits};
  if (to_.dtype == DType::kUInt8) {
    scatter<std::uint8_t, std::uint8_t>(row, format, first, column_step_, channel_step_);
  } else if (bits == 8) {
    scatter<std::uint8_t, float>(row, format, first, column_step_, channel_step_);
  } else {
    scatter<std::uint16_t, float>(row, format, first, column_step_, channel_step_);
  }
}

const std::byte* RowWriter::with_channels(const std::byte* row) {
  if (from_.channels == to_.channels) {
    return row;
  }
  if (work_[0] == nullptr) {
    work_[0] = new_row(from_.width * to_.channels * (from_.bits / 8));
  }
  if (from_.bits == 8) {
    change_channels(as_u8(row), from_.channels, from_.width, to_.channels,
                    reinterpret_cast<std::uint8_t*>(work_[0].get()));
  } else {
    change_channels(as_u16(row), from_.channels, from_.width, to_.channels,
                    reinterpret_cast<std::uint16_t*>(work_[0].get()));
  }
  return work_[0].get();
}

const std::byte* RowWriter::with_eight_bits(const std::byte* row) {
  const std::int64_t values = from_.width * to_.channels;
  if (work_[1] == nullptr) {
    work_[1] = new_row(values);
  }
  narrow_row(as_u16(row), values, reinterpret_cast<std::uint8_t*>(work_[1].get()));
  return work_[1].get();
}

const std::byte* RowWriter::mirrored(const std::byte* row, int bits) {
  const std::int64_t pixel = std::int64_t{to_.channels} * (bits / 8);
  if (work_[2] == nullptr) {
    work_[2] = new_row(from_.width * pixel);
  }
  mirror_row(row, from_.width, pixel, work_[2].get());
  return work_[2].get();
}

}  // namespace energon
