// Decodes JPEG with libjpeg-turbo: writes scanlines to the memory of RowWriter, and decodes only
// the requested region.

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // needed by jpeglib.h, which does not include it
#include <functional>
#include <memory>
#include <string>

#include <fmt/format.h>

// jpeglib.h must come first: it selects the messages in jerror.h.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "io/bytes.h"
#include "io/error.h"
#include "media/image/image_reader.h"
#include "media/image/orientation.h"
#include "media/image/pixel_rows.h"

namespace energon {

// --- The orientation in the Exif segment (APP1) ---

namespace {

constexpr unsigned kApp1 = 0xE1;
constexpr unsigned kStartOfScan = 0xDA;
constexpr unsigned kEndOfImage = 0xD9;

// TEM, RSTn and SOI are not followed by a length.
bool stands_alone(unsigned marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

/// Walks the segments before the pixels. 1 if none contains an orientation or they are damaged.
int jpeg_orientation(ByteView encoded) {
  const auto byte = [&](std::size_t at) { return std::to_integer<unsigned>(encoded[at]); };
  std::size_t at = 2;  // after SOI
  while (at + 4 <= encoded.size() && byte(at) == 0xFF) {
    const unsigned marker = byte(at + 1);
    if (marker == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == kStartOfScan || marker == kEndOfImage) {
      break;
    }
    if (stands_alone(marker)) {
      at += 2;
      continue;
    }
    const std::size_t length = byte(at + 2) << 8U | byte(at + 3);  // includes itself
    if (length < 2 || length > encoded.size() - at - 2) {
      break;
    }
    const ByteView content = encoded.subspan(at + 4, length - 2);
    if (marker == kApp1 && as_text(content).starts_with("Exif")) {
      return exif_orientation(content);
    }
    at += 2 + length;
  }
  return 1;
}

}  // namespace

// --- libjpeg-turbo ---

namespace {

/// One decompression by libjpeg-turbo. Turns its errors and warnings into Errors.
///
/// Owns the state of libjpeg and reads from `encoded`, which must outlive it. All calls to libjpeg
/// go through call(). Not thread-safe.
///
/// Warnings end the decompression like errors, except those that cannot affect pixels: an unknown
/// JFIF revision, an unknown Adobe color transform (YCbCr is assumed), a damaged color profile,
/// bytes between segments, and wrong spectral parameters in a sequential scan. More than 500 scans,
/// with which a small file could keep the decoder busy, are an error too.
class JpegSession {
 public:
  /// Reads the header.
  explicit JpegSession(ByteView encoded);
  ~JpegSession();
  JpegSession(const JpegSession&) = delete;
  JpegSession& operator=(const JpegSession&) = delete;

  jpeg_decompress_struct& libjpeg() { return libjpeg_; }
  const jpeg_decompress_struct& libjpeg() const { return libjpeg_; }

  /// Runs `body`, which must have no objects with destructors. Throws Error: kCorruptData,
  /// kUnsupported or kResourceExhausted, with libjpeg's message, the row and the byte offset.
  template <class Body>
  void call(const Body& body) {
    if (!runs_to_end(errors_.jump, body)) {
      throw failure();
    }
  }

 private:
  // libjpeg sees only `base`, which must be first.
  struct Errors {
    jpeg_error_mgr base;
    std::jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
    bool too_many_scans;
  };

  static void on_error(j_common_ptr libjpeg);
  static void on_warning(j_common_ptr libjpeg, int level);
  static void on_progress(j_common_ptr libjpeg);
  Error failure() const;
  std::size_t offset() const;

  ByteView encoded_;
  jpeg_decompress_struct libjpeg_;
  Errors errors_;
  jpeg_progress_mgr progress_;
};

constexpr int kMostScans = 500;

bool is_harmless(int warning) {
  switch (warning) {
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

ErrorCode code_of(int message) {
  switch (message) {
    case JERR_OUT_OF_MEMORY:
      return ErrorCode::kResourceExhausted;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kCorruptData;
  }
}

void be_silent(j_common_ptr /*libjpeg*/) {}

JpegSession::JpegSession(ByteView encoded) : encoded_(encoded), libjpeg_{}, errors_{}, progress_{} {
  libjpeg_.err = jpeg_std_error(&errors_.base);
  errors_.base.error_exit = on_error;
  errors_.base.emit_message = on_warning;
  errors_.base.output_message = be_silent;
  progress_.progress_monitor = on_progress;
  const auto begin = [this] {
    jpeg_create_decompress(&libjpeg_);
    libjpeg_.progress = &progress_;
    jpeg_mem_src(&libjpeg_, reinterpret_cast<const unsigned char*>(encoded_.data()),
                 static_cast<unsigned long>(encoded_.size()));
    jpeg_read_header(&libjpeg_, TRUE);
  };
  if (!runs_to_end(errors_.jump, begin)) {
    const Error error = failure();
    jpeg_destroy_decompress(&libjpeg_);  // the destructor will not run
    throw error;
  }
}

JpegSession::~JpegSession() { jpeg_destroy_decompress(&libjpeg_); }

void JpegSession::on_error(j_common_ptr libjpeg) {
  auto* errors = reinterpret_cast<Errors*>(libjpeg->err);
  errors->base.format_message(libjpeg, errors->message);
  std::longjmp(errors->jump, 1);
}

void JpegSession::on_warning(j_common_ptr libjpeg, int level) {
  if (level < 0 && !is_harmless(libjpeg->err->msg_code)) {
    on_error(libjpeg);
  }
}

void JpegSession::on_progress(j_common_ptr libjpeg) {
  if (reinterpret_cast<j_decompress_ptr>(libjpeg)->input_scan_number > kMostScans) {
    auto* errors = reinterpret_cast<Errors*>(libjpeg->err);
    errors->too_many_scans = true;
    std::longjmp(errors->jump, 1);
  }
}

// The position up to which libjpeg has consumed the data. When it runs out of bytes, its source
// continues with an end marker of its own.
std::size_t JpegSession::offset() const {
  if (libjpeg_.src == nullptr || libjpeg_.src->next_input_byte == nullptr) {
    return 0;
  }
  const auto* begin = reinterpret_cast<const JOCTET*>(encoded_.data());
  const JOCTET* next = libjpeg_.src->next_input_byte;
  const bool inside =
      std::less_equal<>()(begin, next) && std::less_equal<>()(next, begin + encoded_.size());
  return inside ? static_cast<std::size_t>(next - begin) : encoded_.size();
}

Error JpegSession::failure() const {
  if (errors_.too_many_scans) {
    return {ErrorCode::kResourceExhausted,
            fmt::format("the JPEG has more than {} scans, which no real image needs", kMostScans)};
  }
  const ErrorCode code = code_of(errors_.base.msg_code);
  const std::string place =
      libjpeg_.output_height == 0
          ? fmt::format("in its header, at byte {} of {}", offset(), encoded_.size())
          : fmt::format("at row {} of {}, byte {} of {}", libjpeg_.output_scanline,
                        libjpeg_.output_height, offset(), encoded_.size());
  const char* fault =
      code == ErrorCode::kUnsupported ? "uses an unsupported feature" : "is damaged";
  return {code, fmt::format("the JPEG {} {}: {}", fault, place, errors_.message)};
}

}  // namespace

// --- The reader ---

namespace {

// Scales M/8 for which libjpeg-turbo uses vector instructions. Other scales are slower than the
// next larger one of these.
constexpr int kScales[] = {1, 2, 4, 8};

constexpr std::int64_t kMostRowsAtOnce = 16;

class JpegReader final : public ImageReader {
 public:
  JpegReader(ByteView encoded, const DecodeLimits& limits);

  const ImageInfo& info() const override { return info_; }
  ReadResult start(const ReadPlan& plan) override;
  void read(RowWriter& rows) override;

 private:
  bool is_cmyk() const { return session_.libjpeg().num_components == 4; }
  void choose_colors(int channels);
  void choose_scale(const ReadPlan& plan);
  void check_coefficients() const;
  bool smooths() const;
  void read_columns(std::int64_t begin, std::int64_t end);
  void read_lines(const RowBand& band, std::int64_t count);
  void read_cmyk(RowWriter& rows, std::int64_t y, const RowBand& band, std::int64_t count);

  JpegSession session_;
  const DecodeLimits limits_;
  ImageInfo info_;
  std::int64_t first_column_ = 0;  // of the scaled image
  std::int64_t first_row_ = 0;
  RowFormat rows_;
  bool whole_ = true;
  std::unique_ptr<std::byte[]> cmyk_;
};

JpegReader::JpegReader(ByteView encoded, const DecodeLimits& limits)
    : session_(encoded), limits_(limits) {
  const jpeg_decompress_struct& libjpeg = session_.libjpeg();
  check_pixels("the JPEG", libjpeg.image_width, libjpeg.image_height, limits);
  if (libjpeg.num_components != 1 && libjpeg.num_components != 3 && libjpeg.num_components != 4) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the JPEG has {} components; supported: 1 (gray), 3 (color), 4 (CMYK)",
                            libjpeg.num_components));
  }
  info_ = {.format = ImageFormat::kJpeg,
           .width = libjpeg.image_width,
           .height = libjpeg.image_height,
           .channels = libjpeg.num_components == 1 ? 1 : 3,
           .orientation = jpeg_orientation(encoded)};
}

void JpegReader::choose_colors(int channels) {
  jpeg_decompress_struct& libjpeg = session_.libjpeg();
  rows_.channels = is_cmyk() ? 3 : channels;
  if (is_cmyk()) {
    libjpeg.out_color_space = JCS_CMYK;
  } else if (channels == 1) {
    libjpeg.out_color_space = JCS_GRAYSCALE;
  } else {
    libjpeg.out_color_space = channels == 4 ? JCS_EXT_RGBA : JCS_RGB;
  }
}

void JpegReader::choose_scale(const ReadPlan& plan) {
  jpeg_decompress_struct& libjpeg = session_.libjpeg();
  const auto enough = [&](int scale) {
    return plan.crop.width * scale >= plan.least_width * 8 &&
           plan.crop.height * scale >= plan.least_height * 8;
  };
  libjpeg.scale_num = static_cast<unsigned>(*std::find_if(
      std::begin(kScales), std::end(kScales) - 1, [&](int scale) { return enough(scale); }));
  libjpeg.scale_denom = 8;
}

// A file with several scans needs all coefficients in memory, two bytes each.
void JpegReader::check_coefficients() const {
  const jpeg_decompress_struct& libjpeg = session_.libjpeg();
  const bool several_scans =
      libjpeg.progressive_mode || libjpeg.comps_in_scan < libjpeg.num_components;
  if (several_scans) {
    check_image_bytes("the coefficients of the progressive JPEG", info_.width + 64,
                      info_.height + 64, std::int64_t{2} * libjpeg.num_components, limits_);
  }
}

// Whether libjpeg smooths blocks with missing scans by their neighbors; it sees only decoded
// neighbors. `coef_bits` contains, for each coefficient, the number of low bits that no scan has
// provided, or -1.
bool JpegReader::smooths() const {
  constexpr int kCoefficients = 10;  // used by libjpeg's smoothing
  const jpeg_decompress_struct& libjpeg = session_.libjpeg();
  if (!libjpeg.progressive_mode || libjpeg.coef_bits == nullptr) {
    return false;
  }
  return std::any_of(libjpeg.coef_bits, libjpeg.coef_bits + libjpeg.num_components,
                     [](const int(&bits)[DCTSIZE2]) {
                       return std::any_of(bits, bits + kCoefficients,
                                          [](int missing) { return missing != 0; });
                     });
}

// Columns are decoded in whole blocks, so [begin, end) grows on both sides.
void JpegReader::read_columns(std::int64_t begin, std::int64_t end) {
  jpeg_decompress_struct& libjpeg = session_.libjpeg();
  const std::int64_t all = libjpeg.output_width;
  const int block = libjpeg.max_h_samp_factor * libjpeg.min_DCT_scaled_size;
  const bool upsamples =
      std::any_of(libjpeg.comp_info, libjpeg.comp_info + libjpeg.num_components,
                  [&](const jpeg_component_info& component) {
                    return component.h_samp_factor * component.DCT_scaled_size != block;
                  });
  if (upsamples) {  // a pixel depends on its neighbors' colors
    // libjpeg upsamples a single column of colors differently.
    const std::int64_t least = std::int64_t{2} * libjpeg.max_h_samp_factor;
    begin = std::max<std::int64_t>(begin - 1, 0);
    end = std::min(std::max(end + 1, begin / block * block + least), all);
    if (end - begin / block * block < least) {
      begin = std::max<std::int64_t>(begin / block * block - 1, 0);
    }
  }
  if ((begin == 0 && end == all) || smooths()) {
    return;
  }
  auto first = static_cast<JDIMENSION>(begin);
  auto width = static_cast<JDIMENSION>(end - begin);
  session_.call([&] { jpeg_crop_scanline(&libjpeg, &first, &width); });
  first_column_ = first;
}

ReadResult JpegReader::start(const ReadPlan& plan) {
  jpeg_decompress_struct& libjpeg = session_.libjpeg();
  choose_colors(plan.channels);
  choose_scale(plan);
  check_coefficients();
  session_.call([&] { jpeg_start_decompress(&libjpeg); });

  const std::int64_t scale = libjpeg.scale_num;
  const std::int64_t full_height = libjpeg.output_height;
  const PixelBox& crop = plan.crop;
  read_columns(crop.x * scale / 8, ((crop.x + crop.width) * scale + 7) / 8);
  first_row_ = crop.y * scale / 8;
  rows_.width = libjpeg.output_width;
  rows_.height = ((crop.y + crop.height) * scale + 7) / 8 - first_row_;
  whole_ = first_row_ + rows_.height == full_height;

  const auto scaled = [&](std::int64_t pixels) { return static_cast<double>(pixels * scale) / 8; };
  return {.rows = rows_,
          .box = {scaled(crop.x) - static_cast<double>(first_column_),
                  scaled(crop.y) - static_cast<double>(first_row_), scaled(crop.width),
                  scaled(crop.height)}};
}

void JpegReader::read_lines(const RowBand& band, std::int64_t count) {
  jpeg_decompress_struct& libjpeg = session_.libjpeg();
  JSAMPROW lines[kMostRowsAtOnce];
  for (std::int64_t i = 0; i < count; ++i) {
    lines[i] = reinterpret_cast<JSAMPROW>(band.first + i * band.stride);
  }
  session_.call([&] {
    JDIMENSION read = 0;
    while (read < static_cast<JDIMENSION>(count)) {
      read += jpeg_read_scanlines(&libjpeg, lines + read, static_cast<JDIMENSION>(count) - read);
    }
  });
}

void JpegReader::read_cmyk(RowWriter& rows, std::int64_t y, const RowBand& band,
                           std::int64_t count) {
  const std::ptrdiff_t stride = rows_.width * 4;
  if (cmyk_ == nullptr) {
    cmyk_ = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(stride * kMostRowsAtOnce));
  }
  read_lines({.first = cmyk_.get(), .stride = stride, .rows = count}, count);
  for (std::int64_t i = 0; i < count; ++i) {
    rgb_of_inverted_cmyk(reinterpret_cast<const std::uint8_t*>(cmyk_.get() + i * stride),
                         rows_.width,
                         reinterpret_cast<std::uint8_t*>(band.first + i * band.stride));
  }
  rows.done(y, count);
}

void JpegReader::read(RowWriter& rows) {
  jpeg_decompress_struct& libjpeg = session_.libjpeg();
  if (first_row_ > 0) {
    session_.call([&] { jpeg_skip_scanlines(&libjpeg, static_cast<JDIMENSION>(first_row_)); });
  }
  for (std::int64_t y = 0; y < rows_.height;) {
    const RowBand band = rows.rows(y);
    const std::int64_t count = std::min(band.rows, kMostRowsAtOnce);
    if (is_cmyk()) {
      read_cmyk(rows, y, band, count);
    } else {
      read_lines(band, count);
      rows.done(y, count);
    }
    y += count;
  }
  if (whole_) {  // checks that the end is there
    session_.call([&] { jpeg_finish_decompress(&libjpeg); });
  }
}

}  // namespace

std::unique_ptr<ImageReader> open_jpeg(ByteView encoded, const DecodeLimits& limits) {
  return std::make_unique<JpegReader>(encoded, limits);
}

}  // namespace energon
