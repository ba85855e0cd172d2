// Decodes the first image of a GIF with giflib. Where the image does not cover the canvas, the
// canvas has the transparent color, or else the first color of the palette, as in Pillow.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <gif_lib.h>

#include "io/bytes.h"
#include "io/error.h"
#include "media/image/image_reader.h"

namespace energon {

// --- Blocks (GIF89a specification, sections 11 and following) ---

namespace {

struct GifBlocks {
  std::int64_t frames = 0;  ///< image descriptors
  /// Index of the transparent color of the first image, from its graphic control extension.
  std::optional<int> transparent = std::nullopt;
};

constexpr unsigned kImageSeparator = 0x2C;
constexpr unsigned kExtensionIntroducer = 0x21;
constexpr unsigned kGraphicControl = 0xF9;
constexpr unsigned kHasTransparent = 0x01;
constexpr unsigned kHasColorTable = 0x80;

// A position in the blocks that never passes their end.
class GifWalk {
 public:
  explicit GifWalk(ByteView bytes) : bytes_(bytes) {}

  bool ended() const { return at_ >= bytes_.size(); }
  /// 0 after the end.
  unsigned peek(std::size_t ahead) const {
    return ahead < bytes_.size() - at_ ? std::to_integer<unsigned>(bytes_[at_ + ahead]) : 0;
  }
  void skip(std::size_t count) { at_ = count < bytes_.size() - at_ ? at_ + count : bytes_.size(); }
  /// `packed` contains whether a color table follows, and its size.
  void skip_color_table(unsigned packed) {
    if ((packed & kHasColorTable) != 0) {
      skip(std::size_t{3} << ((packed & 7U) + 1));
    }
  }
  void skip_sub_blocks() {
    while (!ended() && peek(0) != 0) {
      skip(1 + peek(0));
    }
    skip(1);
  }

 private:
  ByteView bytes_;
  std::size_t at_ = 0;
};

/// Walks the blocks without expanding them; stops where they are damaged. Requires: `encoded`
/// begins with a GIF signature.
GifBlocks gif_blocks(ByteView encoded) {
  constexpr std::size_t kHeaderBytes = 13;
  constexpr std::size_t kDescriptorBytes = 10;
  GifBlocks blocks;
  GifWalk walk(encoded);
  const unsigned packed = walk.peek(10);
  walk.skip(kHeaderBytes);
  walk.skip_color_table(packed);
  while (!walk.ended()) {
    const unsigned kind = walk.peek(0);
    if (kind == kImageSeparator) {
      ++blocks.frames;
      const unsigned local = walk.peek(9);
      walk.skip(kDescriptorBytes);
      walk.skip_color_table(local);
      walk.skip(1);  // the code size
    } else if (kind == kExtensionIntroducer) {
      if (walk.peek(1) == kGraphicControl && blocks.frames == 0) {
        const bool transparent = walk.peek(2) >= 4 && (walk.peek(3) & kHasTransparent) != 0;
        blocks.transparent =
            transparent ? std::optional(static_cast<int>(walk.peek(6))) : std::nullopt;
      }
      walk.skip(2);
    } else {
      break;  // the trailer, or damage
    }
    walk.skip_sub_blocks();
  }
  return blocks;
}

}  // namespace

// --- The reader ---

namespace {

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

struct GifSource {
  ByteView bytes;
  std::size_t offset = 0;
};

int read_gif(GifFileType* gif, GifByteType* to, int size) {
  auto* source = static_cast<GifSource*>(gif->UserData);
  const std::size_t count =
      std::min(static_cast<std::size_t>(size), source->bytes.size() - source->offset);
  std::memcpy(to, source->bytes.data() + source->offset, count);
  source->offset += count;
  return static_cast<int>(count);
}

class GifReader final : public ImageReader {
 public:
  GifReader(ByteView encoded, const DecodeLimits& limits);

  const ImageInfo& info() const override { return info_; }
  std::int64_t frames() override { return std::max<std::int64_t>(blocks_.frames, 1); }
  void read(RowWriter& rows) override;

 private:
  using Palette = std::array<std::array<std::byte, 4>, 256>;

  void find_image();
  void skip_extension();
  PixelBox place() const;
  Palette palette() const;
  void put_line(RowWriter& rows, std::int64_t y, const std::uint8_t* indexes,
                const Palette& colors);
  Error failure(int error, std::int64_t row) const;

  GifSource source_;
  const GifBlocks blocks_;
  ImageInfo info_;
  std::unique_ptr<GifFileType, CloseGif> gif_;
};

GifReader::GifReader(ByteView encoded, const DecodeLimits& limits)
    : source_{.bytes = encoded}, blocks_(gif_blocks(encoded)) {
  int error = 0;
  gif_.reset(DGifOpen(&source_, read_gif, &error));
  if (gif_ == nullptr) {
    throw failure(error, 0);
  }
  info_ = {.format = ImageFormat::kGif,
           .width = gif_->SWidth,
           .height = gif_->SHeight,
           .channels = blocks_.transparent ? 4 : 3};
  check_pixels("the GIF", static_cast<std::uint64_t>(info_.width),
               static_cast<std::uint64_t>(info_.height), limits);
}

void GifReader::skip_extension() {
  int code = 0;
  GifByteType* block = nullptr;
  int status = DGifGetExtension(gif_.get(), &code, &block);
  while (status == GIF_OK && block != nullptr) {
    status = DGifGetExtensionNext(gif_.get(), &block);
  }
  if (status != GIF_OK) {
    throw failure(gif_->Error, 0);
  }
}

void GifReader::find_image() {
  for (;;) {
    GifRecordType kind = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif_.get(), &kind) != GIF_OK) {
      throw failure(gif_->Error, 0);
    }
    if (kind == EXTENSION_RECORD_TYPE) {
      skip_extension();
    } else if (kind == IMAGE_DESC_RECORD_TYPE) {
      break;
    } else {
      throw Error(ErrorCode::kCorruptData, "the GIF has no image");
    }
  }
  if (DGifGetImageDesc(gif_.get()) != GIF_OK) {
    throw failure(gif_->Error, 0);
  }
}

// The box of the image on the canvas.
PixelBox GifReader::place() const {
  const GifImageDesc& image = gif_->Image;
  const PixelBox box = {image.Left, image.Top, image.Width, image.Height};
  if (box.width < 1 || box.height < 1 || box.x + box.width > info_.width ||
      box.y + box.height > info_.height) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the GIF's first image of {} x {} pixels at ({}, {}) is not inside its "
                            "canvas of {} x {}",
                            box.width, box.height, box.x, box.y, info_.width, info_.height));
  }
  return box;
}

GifReader::Palette GifReader::palette() const {
  const ColorMapObject* map =
      gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
  if (map == nullptr) {
    throw Error(ErrorCode::kCorruptData, "the GIF's first image has no color table");
  }
  Palette colors = {};
  for (int i = 0; i < 256; ++i) {
    const GifColorType color = i < map->ColorCount ? map->Colors[i] : GifColorType{};
    const bool transparent = blocks_.transparent == i;
    colors[static_cast<std::size_t>(i)] = {
        std::byte{color.Red}, std::byte{color.Green}, std::byte{color.Blue},
        std::byte{transparent ? std::uint8_t{0} : std::uint8_t{255}}};
  }
  return colors;
}

void GifReader::put_line(RowWriter& rows, std::int64_t y, const std::uint8_t* indexes,
                         const Palette& colors) {
  std::byte* to = rows.rows(y).first;
  for (std::int64_t x = 0; x < info_.width; ++x) {
    for (int channel = 0; channel < info_.channels; ++channel) {
      *to++ = colors[indexes[x]][static_cast<std::size_t>(channel)];
    }
  }
  rows.done(y, 1);
}

void GifReader::read(RowWriter& rows) {
  find_image();
  const PixelBox box = place();
  const Palette colors = palette();
  const auto background = static_cast<std::uint8_t>(blocks_.transparent.value_or(0));
  std::vector<std::uint8_t> line(static_cast<std::size_t>(info_.width), background);
  for (std::int64_t y = 0; y < info_.height; ++y) {
    if (y < box.y || y >= box.y + box.height) {
      put_line(rows, y, line.data(), colors);
    }
  }
  // An interlaced image is stored in four passes, any other in a single pass.
  struct Pass {
    std::int64_t first, step;
  };
  constexpr Pass kPasses[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  constexpr Pass kAllRows = {0, 1};
  const std::span<const Pass> passes =
      gif_->Image.Interlace ? std::span<const Pass>(kPasses) : std::span(&kAllRows, 1);
  for (const Pass& pass : passes) {
    for (std::int64_t y = pass.first; y < box.height; y += pass.step) {
      if (DGifGetLine(gif_.get(), line.data() + box.x, static_cast<int>(box.width)) != GIF_OK) {
        throw failure(gif_->Error, y);
      }
      put_line(rows, box.y + y, line.data(), colors);
    }
  }
}

Error GifReader::failure(int error, std::int64_t row) const {
  const char* words = GifErrorString(error);
  return {
      error == D_GIF_ERR_NOT_ENOUGH_MEM ? ErrorCode::kResourceExhausted : ErrorCode::kCorruptData,
      fmt::format("the GIF is damaged at row {}, byte {} of {}: {}", row, source_.offset,
                  source_.bytes.size(), words != nullptr ? words : "giflib does not say why")};
}

}  // namespace

std::unique_ptr<ImageReader> open_gif(ByteView encoded, const DecodeLimits& limits) {
  return std::make_unique<GifReader>(encoded, limits);
}

}  // namespace energon
