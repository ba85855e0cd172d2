// PNG through libpng: rows are written where RowWriter says; an interlaced image is put together
// first.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "media/image/image_memory.h"
#include "media/image/image_reader.h"
#include "media/image/png_chunks.h"
#include "media/image/png_session.h"

namespace energon {
namespace {

class PngReader final : public ImageReader {
 public:
  PngReader(ByteView encoded, const DecodeLimits& limits);

  const ImageInfo& info() const override { return info_; }
  std::int64_t frames() override { return extras_.frames; }
  ReadResult start(const ReadPlan& plan) override;
  void read(RowWriter& rows) override;

 private:
  void read_in_order(RowWriter& rows);
  void read_interlaced(RowWriter& rows);

  PngSession session_;
  const DecodeLimits limits_;
  const PngExtras extras_;
  ImageInfo info_;
  RowFormat rows_;
  bool interlaced_ = false;
};

int stored_png_channels(PngSession& session) {
  const bool alpha = png_get_valid(session.png(), session.png_header(), PNG_INFO_tRNS) != 0;
  switch (png_get_color_type(session.png(), session.png_header())) {
    case PNG_COLOR_TYPE_GRAY:
      return alpha ? 2 : 1;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return 2;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return 4;
    default:
      return alpha ? 4 : 3;  // RGB and palettes
  }
}

PngReader::PngReader(ByteView encoded, const DecodeLimits& limits)
    : session_(encoded), limits_(limits), extras_(png_extras(encoded)) {
  png_struct* png = session_.png();
  png_info* header = session_.png_header();
  info_ = {.format = ImageFormat::kPng,
           .width = png_get_image_width(png, header),
           .height = png_get_image_height(png, header),
           .channels = stored_png_channels(session_),
           .bits = png_get_bit_depth(png, header) == 16 ? 16 : 8,
           .orientation = extras_.orientation};
  check_pixels("the PNG", static_cast<std::uint64_t>(info_.width),
               static_cast<std::uint64_t>(info_.height), limits);
  interlaced_ = png_get_interlace_type(png, header) != PNG_INTERLACE_NONE;
}

ReadResult PngReader::start(const ReadPlan& plan) {
  ReadResult result = ImageReader::start(plan);
  rows_ = result.rows;
  if (interlaced_) {
    check_image_bytes("the interlaced PNG", rows_.width, rows_.height, rows_.pixel_bytes(),
                      limits_);
  }
  png_struct* png = session_.png();
  session_.call([&] {
    png_set_expand(png);  // palettes, less than 8 bits, and tRNS
    if (std::endian::native == std::endian::little) {
      png_set_swap(png);
    }
    png_set_interlace_handling(png);
    png_read_update_info(png, session_.png_header());
  });
  return result;
}

void PngReader::read_in_order(RowWriter& rows) {
  png_struct* png = session_.png();
  for (std::int64_t y = 0; y < rows_.height;) {
    const RowBand band = rows.rows(y);
    session_.call([&] {
      for (std::int64_t i = 0; i < band.rows; ++i) {
        png_read_row(png, reinterpret_cast<png_byte*>(band.first + i * band.stride), nullptr);
      }
    });
    rows.done(y, band.rows);
    y += band.rows;
  }
}

void PngReader::read_interlaced(RowWriter& rows) {
  std::unique_ptr<std::byte[]> own;
  RowBand image{.stride = rows_.row_bytes(), .rows = rows_.height};
  if (rows.is_direct()) {
    image = rows.rows(0);
  } else {
    own = std::make_unique_for_overwrite<std::byte[]>(
        image_bytes(rows_.width, rows_.height, rows_.pixel_bytes()));
    image.first = own.get();
  }
  std::vector<png_byte*> lines;
  lines.reserve(static_cast<std::size_t>(rows_.height));
  for (std::int64_t y = 0; y < rows_.height; ++y) {
    lines.push_back(reinterpret_cast<png_byte*>(image.first + y * image.stride));
  }
  session_.call([&] { png_read_image(session_.png(), lines.data()); });
  if (!rows.is_direct()) {
    rows.put(0, image.first, image.stride, rows_.height);
  }
}

void PngReader::read(RowWriter& rows) {
  if (interlaced_) {
    read_interlaced(rows);
  } else {
    read_in_order(rows);
  }
  session_.call([&] { png_read_end(session_.png(), nullptr); });  // sees that the end is there
}

}  // namespace

std::unique_ptr<ImageReader> open_png(ByteView encoded, const DecodeLimits& limits) {
  return std::make_unique<PngReader>(encoded, limits);
}

}  // namespace energon
