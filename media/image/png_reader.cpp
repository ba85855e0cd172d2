// Decodes PNG with libpng: writes rows to the memory of RowWriter. An interlaced image is assembled
// first.

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <png.h>

#include "io/bytes.h"
#include "io/error.h"
#include "media/image/image_reader.h"
#include "media/image/orientation.h"

namespace energon {

// --- Chunks (W3C PNG third edition, section 5) ---

namespace {

/// Metadata in the chunks of a PNG.
struct PngExtras {
  int orientation = 1;      ///< from the chunk eXIf
  std::int64_t frames = 1;  ///< from the chunk acTL of an animation
};

constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kFrameBytes = 12;  // length, type and checksum of a chunk

std::uint32_t big_endian_u32(ByteView bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = (value << 8U) | std::to_integer<std::uint32_t>(bytes[at + i]);
  }
  return value;
}

/// Walks the chunks without checking or expanding them; stops where they are damaged.
PngExtras png_extras(ByteView encoded) {
  PngExtras extras;
  std::size_t at = kSignatureBytes;
  while (at + kFrameBytes <= encoded.size()) {
    const std::size_t length = big_endian_u32(encoded, at);
    const std::string_view type = as_text(encoded).substr(at + 4, 4);
    if (length > encoded.size() - at - kFrameBytes || type == "IEND") {
      break;
    }
    const ByteView content = encoded.subspan(at + 8, length);
    if (type == "eXIf") {
      extras.orientation = exif_orientation(content);
    } else if (type == "acTL" && length >= 4) {
      extras.frames = std::max<std::int64_t>(big_endian_u32(content, 0), 1);
    }
    at += kFrameBytes + length;
  }
  return extras;
}

}  // namespace

// --- libpng ---

namespace {

/// One PNG read by libpng. Turns its errors into Errors.
///
/// Owns the state of libpng and reads from `encoded`, which must outlive it. All calls to libpng
/// that can fail go through call(). Chunks that do not affect pixels are skipped, so libpng's
/// warnings can be ignored. Not thread-safe.
class PngSession {
 public:
  /// Reads the chunks before the pixels.
  explicit PngSession(ByteView encoded);
  ~PngSession();
  PngSession(const PngSession&) = delete;
  PngSession& operator=(const PngSession&) = delete;

  png_struct* png() { return png_; }
  png_info* png_header() { return info_; }

  /// Runs `body`, which must have no objects with destructors. Throws Error (kCorruptData, or
  /// kResourceExhausted if out of memory) with libpng's message, the row and the byte offset.
  template <class Body>
  void call(const Body& body) {
    if (!runs_to_end(state_.jump, body)) {
      throw failure();
    }
  }

 private:
  static constexpr std::size_t kMostText = 160;

  // The state of the callbacks.
  struct State {
    ByteView encoded;
    std::size_t offset;
    char message[kMostText];
    std::jmp_buf jump;
  };

  static void on_error(png_struct* png, const char* message);
  static void on_warning(png_struct* png, const char* message);
  static void on_read(png_struct* png, unsigned char* to, std::size_t size);
  Error failure() const;

  State state_;
  png_struct* png_ = nullptr;
  png_info* info_ = nullptr;
};

constexpr png_uint_32 kMostPngSize =
    0x7FFFFFFF;  // DecodeLimits are checked instead of libpng's own

PngSession::PngSession(ByteView encoded)
    : state_{.encoded = encoded, .offset = 0, .message = {}, .jump = {}} {
  const auto begin = [this] {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state_, on_error, on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      return;
    }
    png_set_read_fn(png_, &state_, on_read);
    png_set_user_limits(png_, kMostPngSize, kMostPngSize);
    // A negative count means all chunks except those that pixels depend on (also PLTE and tRNS).
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
  };
  const bool done = runs_to_end(state_.jump, begin);
  if (!done || info_ == nullptr) {
    const Error error =
        done ? Error(ErrorCode::kResourceExhausted, "libpng is out of memory") : failure();
    png_destroy_read_struct(&png_, &info_, nullptr);  // the destructor will not run
    throw error;
  }
}

PngSession::~PngSession() { png_destroy_read_struct(&png_, &info_, nullptr); }

void PngSession::on_error(png_struct* png, const char* message) {
  auto* state = static_cast<State*>(png_get_error_ptr(png));
  const std::size_t size = std::min(std::strlen(message), kMostText - 1);
  std::memcpy(state->message, message, size);
  state->message[size] = '\0';
  std::longjmp(state->jump, 1);
}

void PngSession::on_warning(png_struct* /*png*/, const char* /*message*/) {}

void PngSession::on_read(png_struct* png, unsigned char* to, std::size_t size) {
  auto* state = static_cast<State*>(png_get_io_ptr(png));
  if (size > state->encoded.size() - state->offset) {
    png_error(png, "the data ends too early");
  }
  std::memcpy(to, state->encoded.data() + state->offset, size);
  state->offset += size;
}

Error PngSession::failure() const {
  const std::string message = printable(state_.message);
  const ErrorCode code = message.find("emory") != std::string::npos ? ErrorCode::kResourceExhausted
                                                                    : ErrorCode::kCorruptData;
  const std::uint32_t row = png_ == nullptr ? 0 : png_get_current_row_number(png_);
  return {code, fmt::format("the PNG is damaged at row {}, byte {} of {}: {}", row, state_.offset,
                            state_.encoded.size(), message)};
}

}  // namespace

// --- The reader ---

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
    png_set_expand(png);  // palettes, fewer than 8 bits, and tRNS
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
  session_.call([&] { png_read_end(session_.png(), nullptr); });  // checks that the end is there
}

}  // namespace

std::unique_ptr<ImageReader> open_png(ByteView encoded, const DecodeLimits& limits) {
  return std::make_unique<PngReader>(encoded, limits);
}

}  // namespace energon
