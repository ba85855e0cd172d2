// TIFF through libtiff: strips and tiles of gray, RGB and palettes of up to 16 bits; other kinds,
// such as CMYK and Lab, by libtiff's conversion to RGBA of 8 bits.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "media/image/image_memory.h"
#include "media/image/image_reader.h"
#include "media/image/tiff_file.h"
#include "media/image/tiff_layout.h"

namespace energon {
namespace {

std::unique_ptr<std::byte[]> new_bytes(std::uint64_t size) {
  return std::make_unique_for_overwrite<std::byte[]>(size);
}

// Colors that were multiplied by alpha become what they were, in Pillow's way: rounded down, and 0
// where alpha is 0. The last of the channels is alpha.
template <class T>
void divide_by_alpha(std::byte* row, std::int64_t width, int channels) {
  constexpr std::uint32_t kMost = std::numeric_limits<T>::max();
  T* pixel = reinterpret_cast<T*>(row);
  for (std::int64_t x = 0; x < width; ++x, pixel += channels) {
    const std::uint32_t alpha = pixel[channels - 1];
    for (int color = 0; color < channels - 1; ++color) {
      pixel[color] =
          alpha == 0 ? T{0} : static_cast<T>(std::min(pixel[color] * kMost / alpha, kMost));
    }
  }
}

class TiffReader final : public ImageReader {
 public:
  TiffReader(ByteView encoded, const DecodeLimits& limits);

  const ImageInfo& info() const override { return info_; }
  std::int64_t frames() override { return TIFFNumberOfDirectories(file_.get()); }
  ReadResult start(const ReadPlan& plan) override;
  void read(RowWriter& rows) override;

 private:
  // Tiles, or strips: tiles as wide as the image.
  struct Grid {
    bool tiled;
    std::int64_t width;
    std::int64_t height;
    std::int64_t line_bytes;
    std::int64_t bytes;
  };

  Grid grid();
  void read_grid(RowWriter& rows);
  void read_tile(const Grid& grid, std::int64_t x, std::int64_t y, int sample, std::byte* to);
  struct Channels {
    int begin, end;
  };
  void place_tile(const Grid& grid, const std::byte* tile, std::int64_t x, std::int64_t lines,
                  Channels channels, std::byte* band) const;
  template <class T>
  void place_channel(const std::byte* line, std::int64_t width, int channel, std::byte* to) const;
  void place_narrow(const std::byte* line, std::int64_t width, std::byte* to) const;
  void read_converted(RowWriter& rows);
  void check_no_damage(std::int64_t row);

  TiffFile file_;
  const DecodeLimits limits_;
  ImageInfo info_;
  TiffLayout layout_;
  TiffPalette palette_ = {};
};

TiffReader::TiffReader(ByteView encoded, const DecodeLimits& limits)
    : file_(encoded, limits), limits_(limits) {
  info_.format = ImageFormat::kTiff;
  info_.width = file_.u32(TIFFTAG_IMAGEWIDTH);
  info_.height = file_.u32(TIFFTAG_IMAGELENGTH);
  check_pixels("the TIFF", static_cast<std::uint64_t>(info_.width),
               static_cast<std::uint64_t>(info_.height), limits);
  layout_ = tiff_layout(file_);
  info_.channels = layout_.channels;
  info_.bits = layout_.plain && layout_.bits == 16 ? 16 : 8;
  const int orientation = file_.u16(TIFFTAG_ORIENTATION);
  info_.orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
}

ReadResult TiffReader::start(const ReadPlan& plan) {
  ReadResult result = ImageReader::start(plan);
  if (layout_.plain) {
    const Grid tiles = grid();
    check_decoded_bytes("a strip or tile of the TIFF", static_cast<std::uint64_t>(tiles.bytes),
                        limits_);
    check_image_bytes("a band of the TIFF", info_.width, tiles.height, result.rows.pixel_bytes(),
                      limits_);
    if (layout_.palette) {
      palette_ = tiff_palette(file_, layout_.bits);
    }
  } else {
    result.rows.channels = 4;
    check_image_bytes("the converted TIFF", info_.width, info_.height, 4, limits_);
  }
  return result;
}

void TiffReader::read(RowWriter& rows) {
  file_.mind_warnings();
  layout_.plain ? read_grid(rows) : read_converted(rows);
}

TiffReader::Grid TiffReader::grid() {
  TIFF* tiff = file_.get();
  Grid grid = {};
  grid.tiled = TIFFIsTiled(tiff) != 0;
  if (grid.tiled) {
    grid.width = file_.u32(TIFFTAG_TILEWIDTH);
    grid.height = std::min<std::int64_t>(file_.u32(TIFFTAG_TILELENGTH), info_.height);
    grid.line_bytes = TIFFTileRowSize(tiff);
    grid.bytes = TIFFTileSize(tiff);
  } else {
    grid.width = info_.width;
    grid.height = std::min<std::int64_t>(file_.u32(TIFFTAG_ROWSPERSTRIP), info_.height);
    grid.line_bytes = TIFFScanlineSize(tiff);
    grid.bytes = TIFFStripSize(tiff);
  }
  // What a line must have, so that nothing is read behind it whatever libtiff says.
  const std::int64_t samples = layout_.separate ? 1 : layout_.samples_per_pixel;
  const std::int64_t least = (grid.width * samples * layout_.bits + 7) / 8;
  if (grid.width < 1 || grid.height < 1 || grid.line_bytes < least ||
      grid.bytes / grid.line_bytes < grid.height) {
    throw file_.failure("the size of strips or tiles");
  }
  return grid;
}

void TiffReader::check_no_damage(std::int64_t row) {
  if (file_.has_message()) {
    throw file_.failure(fmt::format("row {} of {}", row, info_.height));
  }
}

void TiffReader::read_tile(const Grid& grid, std::int64_t x, std::int64_t y, int sample,
                           std::byte* to) {
  TIFF* tiff = file_.get();
  const auto plane = static_cast<std::uint16_t>(sample);
  const auto row = static_cast<std::uint32_t>(y);
  const std::int64_t lines = std::min(grid.height, info_.height - y);
  const tmsize_t size =
      grid.tiled ? TIFFReadEncodedTile(
                       tiff, TIFFComputeTile(tiff, static_cast<std::uint32_t>(x), row, 0, plane),
                       to, grid.bytes)
                 : TIFFReadEncodedStrip(tiff, TIFFComputeStrip(tiff, row, plane), to, grid.bytes);
  check_no_damage(y);
  if (size < lines * grid.line_bytes) {
    throw file_.failure(fmt::format("row {} of {}", y, info_.height));
  }
}

template <class T>
void TiffReader::place_channel(const std::byte* line, std::int64_t width, int channel,
                               std::byte* to) const {
  const int step = layout_.separate ? 1 : layout_.samples_per_pixel;
  const T* from = reinterpret_cast<const T*>(line) + (layout_.separate ? 0 : channel);
  T* out = reinterpret_cast<T*>(to) + channel;
  const T flip = layout_.inverted && channel == 0 ? std::numeric_limits<T>::max() : T{0};
  for (std::int64_t x = 0; x < width; ++x) {
    out[x * layout_.channels] = static_cast<T>(from[x * step] ^ flip);
  }
}

void TiffReader::place_narrow(const std::byte* line, std::int64_t width, std::byte* to) const {
  auto* out = reinterpret_cast<std::uint8_t*>(to);
  if (!layout_.palette) {
    unpack_tiff_samples(line, width, layout_.bits, false, out);
    std::transform(out, out + width, out,
                   [&](unsigned value) { return layout_.inverted ? 255 - value : value; });
    return;
  }
  // The indexes lie at the end of the place of their colours, which then overtake none of them.
  std::uint8_t* indexes = out + 2 * width;
  unpack_tiff_samples(line, width, layout_.bits, true, indexes);
  for (std::int64_t x = 0; x < width; ++x) {
    const auto color = palette_[indexes[x]];
    std::copy(color.begin(), color.end(), out + 3 * x);
  }
}

// The columns of `tile` that are inside the image, into all rows of the band.
void TiffReader::place_tile(const Grid& grid, const std::byte* tile, std::int64_t x,
                            std::int64_t lines, Channels channels, std::byte* band) const {
  const std::int64_t width = std::min(grid.width, info_.width - x);
  const std::int64_t pixel = std::int64_t{layout_.channels} * (info_.bits / 8);
  for (std::int64_t i = 0; i < lines; ++i) {
    const std::byte* line = tile + i * grid.line_bytes;
    std::byte* to = band + (i * info_.width + x) * pixel;
    if (layout_.palette || layout_.bits < 8) {
      place_narrow(line, width, to);
      continue;
    }
    for (int channel = channels.begin; channel < channels.end; ++channel) {
      layout_.bits == 16 ? place_channel<std::uint16_t>(line, width, channel, to)
                         : place_channel<std::uint8_t>(line, width, channel, to);
    }
  }
}

void TiffReader::read_grid(RowWriter& rows) {
  const Grid tiles = grid();
  const std::int64_t pixel = std::int64_t{layout_.channels} * (info_.bits / 8);
  const std::unique_ptr<std::byte[]> tile = new_bytes(static_cast<std::uint64_t>(tiles.bytes));
  const std::unique_ptr<std::byte[]> band =
      new_bytes(image_bytes(info_.width, tiles.height, pixel));
  for (std::int64_t y = 0; y < info_.height; y += tiles.height) {
    const std::int64_t lines = std::min(tiles.height, info_.height - y);
    for (std::int64_t x = 0; x < info_.width; x += tiles.width) {
      // One tile has all channels, or each has one.
      const int step = layout_.separate ? 1 : layout_.channels;
      for (int channel = 0; channel < layout_.channels; channel += step) {
        read_tile(tiles, x, y, channel, tile.get());
        place_tile(tiles, tile.get(), x, lines, {channel, channel + step}, band.get());
      }
    }
    if (layout_.premultiplied) {
      const std::int64_t pixels = info_.width * lines;
      info_.bits == 16 ? divide_by_alpha<std::uint16_t>(band.get(), pixels, layout_.channels)
                       : divide_by_alpha<std::uint8_t>(band.get(), pixels, layout_.channels);
    }
    rows.put(y, band.get(), info_.width * pixel, lines);
  }
}

void TiffReader::read_converted(RowWriter& rows) {
  const auto raster =
      std::make_unique_for_overwrite<std::uint32_t[]>(image_bytes(info_.width, info_.height, 1));
  // libtiff 4.5 rounds its own buffer up to a multiple of 1024 bytes and then finds it to be larger
  // than a tile that is stored as it is.
  std::unique_ptr<std::byte[]> tile;
  if (TIFFIsTiled(file_.get()) != 0 && file_.u16(TIFFTAG_COMPRESSION) == COMPRESSION_NONE) {
    const auto size = static_cast<std::uint64_t>(TIFFTileSize(file_.get()));
    check_decoded_bytes("a tile of the TIFF", size, limits_);
    tile = new_bytes(size);
    TIFFReadBufferSetup(file_.get(), tile.get(), static_cast<tmsize_t>(size));
  }
  // With the orientation of the file libtiff turns nothing.
  if (TIFFReadRGBAImageOriented(file_.get(), static_cast<std::uint32_t>(info_.width),
                                static_cast<std::uint32_t>(info_.height), raster.get(),
                                info_.orientation, 1) != 1) {
    throw file_.failure("a row");
  }
  check_no_damage(0);
  const std::uint32_t* from = raster.get();
  for (std::int64_t y = 0; y < info_.height; ++y) {
    std::byte* to = rows.rows(y).first;
    for (std::int64_t x = 0; x < info_.width; ++x, ++from) {
      for (const std::uint32_t value :
           {TIFFGetR(*from), TIFFGetG(*from), TIFFGetB(*from), TIFFGetA(*from)}) {
        *to++ = static_cast<std::byte>(value);
      }
    }
    rows.done(y, 1);
  }
}

}  // namespace

std::unique_ptr<ImageReader> open_tiff(ByteView encoded, const DecodeLimits& limits) {
  return std::make_unique<TiffReader>(encoded, limits);
}

}  // namespace energon
