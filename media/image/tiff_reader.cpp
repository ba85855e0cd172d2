// Decodes TIFF with libtiff: strips and tiles of gray, RGB and palettes of up to 16 bits; other
// kinds, such as CMYK and Lab, by libtiff's conversion to 8-bit RGBA.

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <tiffio.h>

#include "io/bytes.h"
#include "io/error.h"
#include "media/decode_limits.h"
#include "media/image/image_decoder.h"
#include "media/image/image_reader.h"

namespace energon {

// --- libtiff ---

namespace {

/// A TIFF in memory, read by libtiff, whose errors become Errors. Reads the first directory of
/// `encoded`, which must outlive the object. Does not change libtiff's global state. Not
/// thread-safe.
class TiffFile {
 public:
  /// Throws Error (kCorruptData).
  TiffFile(ByteView encoded, const DecodeLimits& limits);

  TIFF* get() { return tiff_.get(); }

  /// The value of a tag, or its default.
  std::uint32_t u32(std::uint32_t tag);
  std::uint16_t u16(std::uint32_t tag);

  /// From now on, treats warnings as errors: they report damaged pixels, which some codecs of
  /// libtiff fill in.
  void mind_warnings() { source_->minds_warnings = true; }
  bool has_message() const { return source_->message[0] != '\0'; }

  /// "`what` of the TIFF …: <libtiff's first message>".
  Error failure(std::string_view what) const;

 private:
  static constexpr std::size_t kMostText = 200;

  struct Source {
    ByteView bytes;
    std::uint64_t offset;
    bool minds_warnings;
    char message[kMostText];
  };
  struct Close {
    void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  };

  static tmsize_t on_read(thandle_t handle, void* to, tmsize_t size);
  static tmsize_t on_write(thandle_t handle, void* from, tmsize_t size);
  static toff_t on_seek(thandle_t handle, toff_t offset, int whence);
  static toff_t on_size(thandle_t handle);
  static int on_close(thandle_t handle);
  static int on_error(TIFF* tiff, void* user, const char* module, const char* format,
                      std::va_list values);
  static int on_warning(TIFF* tiff, void* user, const char* module, const char* format,
                        std::va_list values);

  std::unique_ptr<Source> source_;
  std::unique_ptr<TIFF, Close> tiff_;
};

struct FreeTiffOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

TiffFile::TiffFile(ByteView encoded, const DecodeLimits& limits)
    : source_(std::make_unique<Source>(
          Source{.bytes = encoded, .offset = 0, .minds_warnings = false, .message = {}})) {
  const std::unique_ptr<TIFFOpenOptions, FreeTiffOptions> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) {
    throw Error(ErrorCode::kResourceExhausted, "libtiff is out of memory");
  }
  constexpr std::uint64_t kMost = std::numeric_limits<tmsize_t>::max();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(),
                                      static_cast<tmsize_t>(std::min(limits.max_bytes, kMost)));
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, source_.get());
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, source_.get());
  // "m" means read through the functions, not mapped.
  tiff_.reset(TIFFClientOpenExt("memory", "rm", source_.get(), on_read, on_write, on_seek, on_close,
                                on_size, nullptr, nullptr, options.get()));
  if (tiff_ == nullptr) {
    throw failure("the header");
  }
}

std::uint32_t TiffFile::u32(std::uint32_t tag) {
  std::uint32_t value = 0;
  TIFFGetFieldDefaulted(tiff_.get(), tag, &value);
  return value;
}

std::uint16_t TiffFile::u16(std::uint32_t tag) {
  std::uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff_.get(), tag, &value);
  return value;
}

Error TiffFile::failure(std::string_view what) const {
  const std::string words = printable(source_->message);
  return {ErrorCode::kCorruptData,
          fmt::format("{} of the TIFF of {} bytes is damaged: {}", what, source_->bytes.size(),
                      words.empty() ? "libtiff does not say why" : words)};
}

tmsize_t TiffFile::on_read(thandle_t handle, void* to, tmsize_t size) {
  auto* source = static_cast<Source*>(handle);
  const std::uint64_t end = source->bytes.size();
  const std::uint64_t left = source->offset < end ? end - source->offset : 0;
  const std::uint64_t count =
      std::min(left, static_cast<std::uint64_t>(std::max<tmsize_t>(size, 0)));
  if (count > 0) {
    std::memcpy(to, source->bytes.data() + source->offset, count);
  }
  source->offset += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t TiffFile::on_write(thandle_t /*handle*/, void* /*from*/, tmsize_t /*size*/) { return 0; }

toff_t TiffFile::on_seek(thandle_t handle, toff_t offset, int whence) {
  auto* source = static_cast<Source*>(handle);
  if (whence == SEEK_CUR) {
    offset += source->offset;
  } else if (whence == SEEK_END) {
    offset += source->bytes.size();
  }
  source->offset = offset;
  return offset;
}

toff_t TiffFile::on_size(thandle_t handle) { return static_cast<Source*>(handle)->bytes.size(); }

int TiffFile::on_close(thandle_t /*handle*/) { return 0; }

// Keeps the first message, because later ones are less specific. Returns 1 so that libtiff does
// nothing else.
int TiffFile::on_error(TIFF* /*tiff*/, void* user, const char* /*module*/, const char* format,
                       std::va_list values) {
  auto* source = static_cast<Source*>(user);
  if (source->message[0] == '\0') {
    std::vsnprintf(source->message, kMostText, format, values);
  }
  return 1;
}

int TiffFile::on_warning(TIFF* tiff, void* user, const char* module, const char* format,
                         std::va_list values) {
  return static_cast<Source*>(user)->minds_warnings ? on_error(tiff, user, module, format, values)
                                                    : 1;
}

}  // namespace

// --- Samples ---

namespace {

/// How the samples of a TIFF become gray, RGB and alpha.
struct TiffLayout {
  /// False for a kind that only libtiff's conversion to 8-bit RGBA can read, such as CMYK or Lab.
  bool plain = false;
  int channels = 0;       ///< of the result: the first samples of a pixel, or a palette's colors
  int bits = 8;           ///< of a stored sample: 1, 2, 4, 8 or 16
  bool inverted = false;  ///< 0 is white
  bool palette = false;
  int samples_per_pixel = 1;
  bool separate = false;       ///< each sample has tiles of its own
  bool premultiplied = false;  ///< the last channel is alpha, and the colors are multiplied by it
};

using TiffPalette = std::array<std::array<std::uint8_t, 3>, 256>;

// The meaning of the first sample after the colors: alpha (premultiplied or not), or something
// else.
std::uint16_t kind_of_extra_sample(TiffFile& file) {
  std::uint16_t count = 0;
  const std::uint16_t* kinds = nullptr;
  const bool has_kinds = TIFFGetField(file.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) == 1;
  return has_kinds && count > 0 ? kinds[0] : EXTRASAMPLE_UNSPECIFIED;
}

std::string_view name_of_sample_format(std::uint16_t format) {
  switch (format) {
    case SAMPLEFORMAT_INT:
      return "signed";
    case SAMPLEFORMAT_IEEEFP:
      return "floating-point";
    case SAMPLEFORMAT_COMPLEXINT:
    case SAMPLEFORMAT_COMPLEXIEEEFP:
      return "complex";
    default:
      return "unknown";
  }
}

// libtiff's conversion would interpret signed samples as unsigned ones.
void check_unsigned(TiffFile& file) {
  const std::uint16_t format = file.u16(TIFFTAG_SAMPLEFORMAT);
  if (format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_VOID) {
    return;
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("the TIFF has {} samples of {} bits (tag SampleFormat is {}), expected "
                          "unsigned ones: such numbers do not map to levels of an image. Store "
                          "the array as .npy, or convert it to unsigned samples",
                          name_of_sample_format(format), file.u16(TIFFTAG_BITSPERSAMPLE), format));
}

bool is_plain(const TiffLayout& layout, std::uint16_t photometric) {
  const bool narrow = layout.bits == 1 || layout.bits == 2 || layout.bits == 4;
  const bool wide = layout.bits == 8 || layout.bits == 16;
  switch (photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
      return wide || (narrow && layout.samples_per_pixel == 1);
    case PHOTOMETRIC_PALETTE:
      return layout.samples_per_pixel == 1 && (narrow || layout.bits == 8);
    case PHOTOMETRIC_RGB:
      return wide && layout.samples_per_pixel >= 3;
    default:
      return false;
  }
}

std::uint16_t effective_photometric(TiffFile& file) {
  std::uint16_t photometric = 0;
  if (TIFFGetField(file.get(), TIFFTAG_PHOTOMETRIC, &photometric) != 1) {
    throw Error(ErrorCode::kCorruptData,
                "the TIFF does not declare the meaning of its samples (tag "
                "PhotometricInterpretation)");
  }
  if (photometric == PHOTOMETRIC_YCBCR && file.u16(TIFFTAG_COMPRESSION) == COMPRESSION_JPEG) {
    TIFFSetField(file.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    return PHOTOMETRIC_RGB;
  }
  return photometric;
}

void check_convertible(TiffFile& file) {
  char reason[1024] = "";
  if (TIFFRGBAImageOK(file.get(), reason) != 1) {
    reason[sizeof(reason) - 1] = '\0';
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the TIFF has an unsupported kind of pixels: {}", printable(reason)));
  }
}

/// Throws Error (kUnsupported) for samples that are not unsigned integers, and for kinds that
/// libtiff cannot convert either. Asks libtiff for RGB if an embedded JPEG has YCbCr.
TiffLayout tiff_layout(TiffFile& file) {
  const std::uint16_t photometric = effective_photometric(file);
  if (TIFFIsCODECConfigured(file.u16(TIFFTAG_COMPRESSION)) != 1) {
    throw Error(ErrorCode::kUnsupported, fmt::format("the TIFF has compression {}, which this "
                                                     "libtiff does not have",
                                                     file.u16(TIFFTAG_COMPRESSION)));
  }
  check_unsigned(file);
  TiffLayout layout;
  layout.bits = file.u16(TIFFTAG_BITSPERSAMPLE);
  layout.samples_per_pixel = file.u16(TIFFTAG_SAMPLESPERPIXEL);
  layout.separate = file.u16(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE;
  layout.palette = photometric == PHOTOMETRIC_PALETTE;
  layout.inverted = photometric == PHOTOMETRIC_MINISWHITE;
  layout.plain = is_plain(layout, photometric);
  const bool gray = photometric == PHOTOMETRIC_MINISBLACK || layout.inverted;
  const int colors = gray ? 1 : 3;
  const std::uint16_t extra =
      layout.samples_per_pixel > colors ? kind_of_extra_sample(file) : EXTRASAMPLE_UNSPECIFIED;
  layout.premultiplied = extra == EXTRASAMPLE_ASSOCALPHA;
  const bool alpha = layout.premultiplied || extra == EXTRASAMPLE_UNASSALPHA;
  layout.channels = colors + (alpha ? 1 : 0);
  if (!layout.plain) {
    check_convertible(file);
  }
  return layout;
}

/// The color map of 2^bits entries. Throws Error (kCorruptData) if it is missing. Old writers
/// stored 8-bit colors instead of 16-bit ones.
TiffPalette tiff_palette(TiffFile& file, int bits) {
  const std::uint16_t* map[3] = {};
  if (TIFFGetField(file.get(), TIFFTAG_COLORMAP, &map[0], &map[1], &map[2]) != 1) {
    throw Error(ErrorCode::kCorruptData, "the TIFF has a palette without colors (tag ColorMap)");
  }
  const std::size_t entries = std::size_t{1} << static_cast<unsigned>(bits);
  bool wide = false;
  for (const std::uint16_t* colors : map) {
    wide = wide || std::any_of(colors, colors + entries, [](int value) { return value > 255; });
  }
  TiffPalette palette = {};
  for (std::size_t i = 0; i < entries; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      palette[i][channel] = static_cast<std::uint8_t>(map[channel][i] >> (wide ? 8U : 0U));
    }
  }
  return palette;
}

/// Unpacks one line of samples of up to 8 bits to bytes, left to right from the highest bit. Gray
/// values are widened to 0..255; palette indexes are kept.
void unpack_tiff_samples(const std::byte* line, std::int64_t width, int bits, bool palette,
                         std::uint8_t* to) {
  const unsigned most = (1U << static_cast<unsigned>(bits)) - 1;
  const unsigned factor = palette ? 1 : 255 / most;
  const int in_byte = 8 / bits;
  for (std::int64_t x = 0; x < width; ++x) {
    const auto byte = std::to_integer<unsigned>(line[x / in_byte]);
    const auto shift = static_cast<unsigned>(8 - bits - static_cast<int>(x % in_byte) * bits);
    to[x] = static_cast<std::uint8_t>(((byte >> shift) & most) * factor);
  }
}

}  // namespace

// --- The reader ---

namespace {

std::unique_ptr<std::byte[]> new_bytes(std::uint64_t size) {
  return std::make_unique_for_overwrite<std::byte[]>(size);
}

// Divides premultiplied colors by alpha, as Pillow does: rounded down, and 0 where alpha is 0. The
// last channel is alpha.
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
  // Tiles. Strips are tiles as wide as the image.
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
  // The bytes that a line must have, so that no read passes its end whatever libtiff reports.
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
  // The indexes are at the end of the memory for their colors, so that writing colors never
  // overwrites an unread index.
  std::uint8_t* indexes = out + 2 * width;
  unpack_tiff_samples(line, width, layout_.bits, true, indexes);
  for (std::int64_t x = 0; x < width; ++x) {
    const auto color = palette_[indexes[x]];
    std::copy(color.begin(), color.end(), out + 3 * x);
  }
}

// Copies the columns of `tile` that are inside the image into all rows of the band.
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
      // A tile contains all channels, or only one.
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
  // libtiff 4.5 rounds its own buffer up to a multiple of 1024 bytes, and then refuses an
  // uncompressed tile because the buffer is larger.
  std::unique_ptr<std::byte[]> tile;
  if (TIFFIsTiled(file_.get()) != 0 && file_.u16(TIFFTAG_COMPRESSION) == COMPRESSION_NONE) {
    const auto size = static_cast<std::uint64_t>(TIFFTileSize(file_.get()));
    check_decoded_bytes("a tile of the TIFF", size, limits_);
    tile = new_bytes(size);
    TIFFReadBufferSetup(file_.get(), tile.get(), static_cast<tmsize_t>(size));
  }
  // With the orientation of the file, libtiff does not rotate.
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
