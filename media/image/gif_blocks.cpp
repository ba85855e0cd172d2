#include "media/image/gif_blocks.h"

#include <cstddef>

namespace energon {
namespace {

constexpr unsigned kImageSeparator = 0x2C;
constexpr unsigned kExtensionIntroducer = 0x21;
constexpr unsigned kGraphicControl = 0xF9;
constexpr unsigned kHasTransparent = 0x01;
constexpr unsigned kHasColorTable = 0x80;

// A place in the blocks that does not pass their end.
class GifWalk {
 public:
  explicit GifWalk(ByteView bytes) : bytes_(bytes) {}

  bool ended() const { return at_ >= bytes_.size(); }
  /// 0 behind the end.
  unsigned peek(std::size_t ahead) const {
    return ahead < bytes_.size() - at_ ? std::to_integer<unsigned>(bytes_[at_ + ahead]) : 0;
  }
  void skip(std::size_t count) { at_ = count < bytes_.size() - at_ ? at_ + count : bytes_.size(); }
  /// The packed field says whether a colour table follows and how large it is.
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

}  // namespace

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

}  // namespace energon
