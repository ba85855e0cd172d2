#include "media/metadata/image_metadata.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/bytes.h"
#include "io/error.h"
#include "media/image/image_decoder.h"

namespace energon {
namespace {

/// Reads numbers in the header of a file, at offsets that the file itself contains.
///
/// Reads from `bytes`, which must outlive it. Functions throw Error (kCorruptData) with the offset
/// if the file ends before the number.
class HeaderBytes {
 public:
  /// `format` names the file in messages, such as "TIFF".
  HeaderBytes(ByteView bytes, const char* format, bool is_little_endian)
      : bytes_(bytes), format_(format), is_little_endian_(is_little_endian) {}

  std::size_t size() const { return bytes_.size(); }
  std::uint8_t u8(std::uint64_t at) const { return static_cast<std::uint8_t>(number(at, 1)); }
  std::uint16_t u16(std::uint64_t at) const { return static_cast<std::uint16_t>(number(at, 2)); }
  std::uint32_t u32(std::uint64_t at) const { return static_cast<std::uint32_t>(number(at, 4)); }
  std::uint64_t u64(std::uint64_t at) const { return number(at, 8); }

  /// The number of `size` bytes, at most 8.
  std::uint64_t number(std::uint64_t at, unsigned size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the {} ends at byte {}, but its header continues at byte {}",
                              format_, bytes_.size(), at));
    }
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) {
      const unsigned place = is_little_endian_ ? size - 1 - i : i;
      value = value << 8U | std::to_integer<std::uint64_t>(bytes_[at + place]);
    }
    return value;
  }

 private:
  ByteView bytes_;
  const char* format_;
  bool is_little_endian_;
};

}  // namespace

// --- TIFF ---

namespace {

/// The image described by the first directory of a TIFF (TIFF 6.0, BigTIFF), with Pillow's name of
/// its mode.
struct TiffHeader {
  std::int64_t width = 0;  ///< after the orientation is applied
  std::int64_t height = 0;
  std::string mode = {};
};

// More values than any image with a mode has.
constexpr std::uint64_t kMostTagValues = 16;

enum class TiffTag : std::uint16_t {
  kWidth = 256,
  kHeight = 257,
  kBits = 258,
  kCompression = 259,
  kPhotometric = 262,
  kFillOrder = 266,
  kOrientation = 274,
  kSamples = 277,
  kPlanes = 284,
  kExtraSamples = 338,
  kSampleFormat = 339,
};

// The first directory.
class TiffDirectory {
 public:
  explicit TiffDirectory(ByteView encoded)
      : bytes_(encoded, "TIFF", as_text(encoded).starts_with("II")), is_big_(bytes_.u16(2) == 43) {
    begin_ = is_big_ ? bytes_.u64(8) : bytes_.u32(4);
    count_ = is_big_ ? bytes_.u64(begin_) : bytes_.u16(begin_);
    begin_ += is_big_ ? 8 : 2;
    if (count_ > bytes_.size() / entry_bytes()) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("the TIFF has {} bytes and a directory of {} tags", bytes_.size(), count_));
    }
  }

  // The values of a tag with integers, or an empty vector if there is no such tag.
  std::vector<std::uint64_t> values(TiffTag tag) const {
    for (std::uint64_t i = 0; i < count_; ++i) {
      const std::uint64_t at = begin_ + i * entry_bytes();
      if (bytes_.u16(at) == static_cast<std::uint16_t>(tag)) {
        return values_at(at);
      }
    }
    return {};
  }

  std::uint64_t value(TiffTag tag, std::uint64_t otherwise) const {
    const std::vector<std::uint64_t> found = values(tag);
    return found.empty() ? otherwise : found.front();
  }

 private:
  std::uint64_t entry_bytes() const { return is_big_ ? 20 : 12; }

  std::vector<std::uint64_t> values_at(std::uint64_t entry) const {
    const unsigned size = value_bytes(bytes_.u16(entry + 2));
    const std::uint64_t count = is_big_ ? bytes_.u64(entry + 4) : bytes_.u32(entry + 4);
    if (size == 0 || count > kMostTagValues) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the TIFF's tag {} has {} values of type {}, expected a few integers",
                              bytes_.u16(entry), count, bytes_.u16(entry + 2)));
    }
    const unsigned inside = is_big_ ? 8 : 4;
    std::uint64_t at = entry + 4 + inside;
    if (count * size > inside) {
      at = bytes_.number(at, inside);
    }
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < count; ++i) {
      values.push_back(bytes_.number(at + i * size, size));
    }
    return values;
  }

  // The size of BYTE, SHORT, LONG and LONG8; 0 for other types.
  static unsigned value_bytes(unsigned type) {
    return type == 1 ? 1U : type == 3 ? 2U : type == 4 ? 4U : type == 16 ? 8U : 0U;
  }

  HeaderBytes bytes_;
  bool is_big_;
  std::uint64_t begin_ = 0;
  std::uint64_t count_ = 0;
};

// The properties that determine the mode. All samples have the same number of bits.
struct TiffSamples {
  std::uint64_t photometric = 0;
  std::uint64_t format = 1;  // 1 unsigned, 2 signed, 3 floating-point
  std::uint64_t bits = 1;
  std::size_t count = 1;
  std::vector<std::uint64_t> extra = {};  // meanings of the samples after the colors
};

enum class TiffOrder : std::uint8_t { kAny, kLittle, kBig };

struct TiffMode {
  std::uint8_t photometric;
  std::uint8_t format;
  std::uint8_t bits;
  std::uint8_t count;
  std::string_view extra;  // one digit per extra sample
  std::string_view mode;
  TiffOrder order = TiffOrder::kAny;
};

// Pillow's table of modes, without properties that do not affect the mode.
constexpr std::array kTiffModes = {
    TiffMode{0, 1, 1, 1, "", "1"},
    TiffMode{0, 1, 2, 1, "", "L"},
    TiffMode{0, 1, 4, 1, "", "L"},
    TiffMode{0, 1, 8, 1, "", "L"},
    TiffMode{0, 1, 16, 1, "", "I;16", TiffOrder::kLittle},
    TiffMode{0, 3, 32, 1, "", "F"},
    TiffMode{1, 1, 1, 1, "", "1"},
    TiffMode{1, 1, 2, 1, "", "L"},
    TiffMode{1, 1, 4, 1, "", "L"},
    TiffMode{1, 1, 8, 1, "", "L"},
    TiffMode{1, 2, 8, 1, "", "L"},
    TiffMode{1, 1, 12, 1, "", "I;16", TiffOrder::kLittle},
    TiffMode{1, 1, 16, 1, "", "I;16", TiffOrder::kLittle},
    TiffMode{1, 1, 16, 1, "", "I;16B", TiffOrder::kBig},
    TiffMode{1, 2, 16, 1, "", "I"},
    TiffMode{1, 1, 32, 1, "", "I", TiffOrder::kLittle},
    TiffMode{1, 2, 32, 1, "", "I"},
    TiffMode{1, 3, 32, 1, "", "F"},
    TiffMode{1, 1, 8, 2, "0", "L"},
    TiffMode{1, 1, 8, 2, "1", "La"},
    TiffMode{1, 1, 8, 2, "2", "LA"},
    TiffMode{2, 1, 8, 3, "", "RGB"},
    TiffMode{2, 1, 8, 4, "", "RGBA"},
    TiffMode{2, 1, 8, 4, "0", "RGB"},
    TiffMode{2, 1, 8, 5, "00", "RGB"},
    TiffMode{2, 1, 8, 6, "000", "RGB"},
    TiffMode{2, 1, 8, 4, "1", "RGBA"},
    TiffMode{2, 1, 8, 5, "10", "RGBA"},
    TiffMode{2, 1, 8, 6, "100", "RGBA"},
    TiffMode{2, 1, 8, 4, "2", "RGBA"},
    TiffMode{2, 1, 8, 5, "20", "RGBA"},
    TiffMode{2, 1, 8, 6, "200", "RGBA"},
    TiffMode{2, 1, 8, 4, "999", "RGBA"},
    TiffMode{2, 1, 16, 3, "", "RGB"},
    TiffMode{2, 1, 16, 4, "", "RGBA"},
    TiffMode{2, 1, 16, 4, "0", "RGB"},
    TiffMode{2, 1, 16, 4, "1", "RGBA"},
    TiffMode{2, 1, 16, 4, "2", "RGBA"},
    TiffMode{3, 1, 1, 1, "", "P"},
    TiffMode{3, 1, 2, 1, "", "P"},
    TiffMode{3, 1, 4, 1, "", "P"},
    TiffMode{3, 1, 8, 1, "", "P"},
    TiffMode{3, 1, 8, 2, "0", "P"},
    TiffMode{3, 1, 8, 2, "2", "PA"},
    TiffMode{5, 1, 8, 4, "", "CMYK"},
    TiffMode{5, 1, 8, 5, "0", "CMYK"},
    TiffMode{5, 1, 8, 6, "00", "CMYK"},
    TiffMode{5, 1, 16, 4, "", "CMYK"},
    TiffMode{6, 1, 8, 1, "", "L"},
    TiffMode{6, 1, 8, 3, "", "YCbCr"},
    TiffMode{8, 1, 8, 3, "", "LAB"},
};

constexpr std::uint64_t kUncompressed = 1;
constexpr std::uint64_t kOldJpeg = 6;
constexpr std::uint64_t kYCbCr = 6;

// Drops values after the samples, and planes of unknown meaning, as Pillow does.
void drop_unused(const TiffDirectory& tags, std::vector<std::uint64_t>& bits,
                 TiffSamples& samples) {
  const std::vector<std::uint64_t>& extra = samples.extra;
  const bool is_unknown = std::all_of(extra.begin(), extra.end(), [](auto x) { return x == 0; });
  if (tags.value(TiffTag::kPlanes, 1) == 2 && is_unknown && extra.size() < samples.count) {
    bits.resize(bits.size() - std::min(bits.size(), extra.size()));
    samples.count -= extra.size();
    samples.extra.clear();
  }
  if (bits.size() > samples.count) {
    bits.resize(samples.count);
  } else if (bits.size() == 1) {
    bits.resize(samples.count, bits.front());
  }
}

TiffSamples tiff_samples(const TiffDirectory& tags) {
  TiffSamples samples;
  const bool is_old_jpeg = tags.value(TiffTag::kCompression, kUncompressed) == kOldJpeg;
  samples.photometric = is_old_jpeg ? kYCbCr : tags.value(TiffTag::kPhotometric, 0);
  samples.format = tags.value(TiffTag::kSampleFormat, 1);
  samples.extra = tags.values(TiffTag::kExtraSamples);
  samples.count = tags.value(TiffTag::kSamples, is_old_jpeg ? 3 : 1);
  std::vector<std::uint64_t> bits = tags.values(TiffTag::kBits);
  if (bits.empty()) {
    bits.push_back(1);
  }
  if (samples.count == 0 || samples.count > kMostTagValues) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the TIFF has {} samples per pixel", samples.count));
  }
  drop_unused(tags, bits, samples);
  samples.bits = bits.empty() ? 0 : bits.front();
  const bool is_uniform =
      std::all_of(bits.begin(), bits.end(), [&](auto count) { return count == samples.bits; });
  if (bits.size() != samples.count || !is_uniform) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the TIFF has {} samples per pixel, of {} bits", samples.count,
                            fmt::join(bits, ", ")));
  }
  return samples;
}

std::string mode_of_tiff(const TiffSamples& samples, bool is_little_endian, bool is_compressed) {
  const TiffOrder order = is_little_endian ? TiffOrder::kLittle : TiffOrder::kBig;
  const std::string extra = fmt::format("{}", fmt::join(samples.extra, ""));
  for (const TiffMode& mode : kTiffModes) {
    if (mode.photometric == samples.photometric && mode.format == samples.format &&
        mode.bits == samples.bits && mode.count == samples.count && mode.extra == extra &&
        (mode.order == TiffOrder::kAny || mode.order == order)) {
      // Codecs convert YCbCr to RGB.
      return mode.photometric == kYCbCr && is_compressed ? "RGB" : std::string(mode.mode);
    }
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("the TIFF has {} samples of {} bits, photometric interpretation {}, "
                          "sample format {} and extra samples '{}'",
                          samples.count, samples.bits, samples.photometric, samples.format, extra));
}

/// Reads only tags. Requires: `encoded` begins with the signature of a TIFF. Throws Error:
/// kCorruptData; kUnsupported for samples without a mode in Pillow.
TiffHeader read_tiff_header(ByteView encoded) {
  const TiffDirectory tags(encoded);
  const std::uint64_t width = tags.value(TiffTag::kWidth, 0);
  const std::uint64_t height = tags.value(TiffTag::kHeight, 0);
  constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 31;
  if (width == 0 || height == 0 || width > kMostPixels || height > kMostPixels) {
    throw Error(ErrorCode::kCorruptData, fmt::format("the TIFF has {} x {} pixels", width, height));
  }
  TiffHeader header{.width = static_cast<std::int64_t>(width),
                    .height = static_cast<std::int64_t>(height)};
  constexpr std::uint64_t kFirstTurned = 5;
  constexpr std::uint64_t kLastTurned = 8;
  const std::uint64_t orientation = tags.value(TiffTag::kOrientation, 1);
  if (orientation >= kFirstTurned && orientation <= kLastTurned) {
    std::swap(header.width, header.height);
  }
  header.mode = mode_of_tiff(tiff_samples(tags), as_text(encoded).starts_with("II"),
                             tags.value(TiffTag::kCompression, kUncompressed) != kUncompressed);
  return header;
}

}  // namespace

// --- All formats ---

namespace {

// The number of components in the frame header (SOF0 to SOF15, except DHT, JPG and DAC).
int jpeg_components(ByteView encoded) {
  const HeaderBytes bytes(encoded, "JPEG", false);
  std::uint64_t at = 2;
  while (true) {
    if (bytes.u8(at) != 0xFF || bytes.u8(at + 1) == 0xFF || bytes.u8(at + 1) == 0) {
      ++at;  // fill bytes, and bytes between segments
      continue;
    }
    const unsigned marker = bytes.u8(at + 1);
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) {
      return bytes.u8(at + 9);
    }
    const bool is_alone = marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    at += is_alone ? 2U : 2U + bytes.u16(at + 2);
  }
}

std::string jpeg_mode(ByteView encoded) {
  const int components = jpeg_components(encoded);
  return components == 1 ? "L" : components == 4 ? "CMYK" : "RGB";
}

// The mode by bit depth and color type in the chunk IHDR.
std::string png_mode(ByteView encoded) {
  const HeaderBytes bytes(encoded, "PNG", false);
  const int depth = bytes.u8(24);
  switch (bytes.u8(25)) {
    case 0:
      return depth == 1 ? "1" : depth == 16 ? "I;16" : "L";
    case 3:
      return "P";
    case 4:
      return depth == 16 ? "RGBA" : "LA";
    case 6:
      return "RGBA";
    default:
      return "RGB";
  }
}

// Whether entry i is gray level i, for all 2^bits colors at `at`.
bool is_gray_ramp(const HeaderBytes& bytes, std::uint64_t at, unsigned flags) {
  const unsigned colors = 2U << (flags & 7U);
  for (unsigned i = 0; i < colors; ++i) {
    for (unsigned channel = 0; channel < 3; ++channel) {
      if (bytes.u8(at + std::uint64_t{3} * i + channel) != i) {
        return false;
      }
    }
  }
  return true;
}

// The offset of the first image, after extensions.
std::uint64_t first_gif_image(const HeaderBytes& bytes, std::uint64_t at) {
  constexpr unsigned kExtension = 0x21;
  constexpr unsigned kImage = 0x2C;
  while (bytes.u8(at) == kExtension) {
    at += 2;
    while (const unsigned size = bytes.u8(at)) {
      at += 1 + size;
    }
    ++at;
  }
  if (bytes.u8(at) != kImage) {
    throw Error(ErrorCode::kCorruptData, fmt::format("the GIF has no image: byte {} is {:#04x}, "
                                                     "expected {:#04x}",
                                                     at, bytes.u8(at), kImage));
  }
  return at;
}

// An image without a color table, or with the table of a gray image, has mode "L". The canvas grows
// to cover the first image.
void read_gif(ByteView encoded, MediaMetadata& metadata) {
  constexpr unsigned kHasPalette = 0x80;
  constexpr std::uint64_t kPalette = 13;
  const HeaderBytes bytes(encoded, "GIF", true);
  const unsigned flags = bytes.u8(10);
  const bool has_palette = (flags & kHasPalette) != 0;
  const std::uint64_t image =
      first_gif_image(bytes, kPalette + (has_palette ? 6U << (flags & 7U) : 0U));
  metadata.width =
      std::max<std::int64_t>(*metadata.width, bytes.u16(image + 1) + bytes.u16(image + 5));
  metadata.height =
      std::max<std::int64_t>(*metadata.height, bytes.u16(image + 3) + bytes.u16(image + 7));
  const unsigned image_flags = bytes.u8(image + 9);
  const bool is_gray = (image_flags & kHasPalette) != 0
                           ? is_gray_ramp(bytes, image + 10, image_flags)
                           : !has_palette || is_gray_ramp(bytes, kPalette, flags);
  metadata.mode = is_gray ? "L" : "P";
}

// The canvas of an animation has alpha if the chunk VP8X declares it.
std::string webp_mode(ByteView encoded, const ImageInfo& info) {
  constexpr unsigned kAlpha = 0x10;
  constexpr unsigned kAnimation = 0x02;
  const HeaderBytes bytes(encoded, "WebP", true);
  const bool is_extended = as_text(encoded).substr(12, 4) == "VP8X";
  const unsigned flags = is_extended ? bytes.u8(20) : 0;
  const bool has_alpha = (flags & kAnimation) != 0 ? (flags & kAlpha) != 0 : info.channels == 4;
  return has_alpha ? "RGBA" : "RGB";
}

}  // namespace

MediaMetadata read_image_metadata(ByteView encoded, const DecodeLimits& limits) {
  MediaMetadata metadata{.kind = MediaKind::kImage};
  if (image_format_of(encoded) == ImageFormat::kTiff) {
    TiffHeader header = read_tiff_header(encoded);
    check_pixels("the TIFF", static_cast<std::uint64_t>(header.width),
                 static_cast<std::uint64_t>(header.height), limits);
    metadata.width = header.width;
    metadata.height = header.height;
    metadata.format = "TIFF";
    metadata.mode = std::move(header.mode);
    return metadata;
  }
  const ImageInfo info = probe_image(encoded, limits);
  metadata.width = info.width;
  metadata.height = info.height;
  metadata.format = info.format == ImageFormat::kWebp ? "WEBP" : to_string(info.format);
  switch (info.format) {
    case ImageFormat::kJpeg:
      metadata.mode = jpeg_mode(encoded);
      break;
    case ImageFormat::kPng:
      metadata.mode = png_mode(encoded);
      break;
    case ImageFormat::kWebp:
      metadata.mode = webp_mode(encoded, info);
      break;
    case ImageFormat::kGif:
      read_gif(encoded, metadata);
      break;
    case ImageFormat::kTiff:
      break;  // handled above
  }
  return metadata;
}

}  // namespace energon
