// The inputs of vision-language models: patches as Qwen-VL's, tiles as InternVL's. A layout is the
// last step of an ImageTransform (ImageTransformOptions::layout).

#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "media/image/image_decoder.h"

namespace energon {

/// Means and standard deviations of OutputFormat, for RGB: those of CLIP, which Qwen2-VL and
/// Qwen2.5-VL use, and of ImageNet, which InternVL uses.
inline constexpr std::array<double, 4> kClipMean = {0.48145466, 0.4578275, 0.40821073, 0};
inline constexpr std::array<double, 4> kClipStddev = {0.26862954, 0.26130258, 0.27577711, 1};
inline constexpr std::array<double, 4> kImageNetMean = {0.485, 0.456, 0.406, 0};
inline constexpr std::array<double, 4> kImageNetStddev = {0.229, 0.224, 0.225, 1};

/// Rows and columns of patches or tiles.
struct ImageGrid {
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  bool operator==(const ImageGrid&) const = default;
};

// --- Patches ---

/// Resizes the image to smart_resize() and cuts it into square patches, as Qwen2VLImageProcessor of
/// Hugging Face's transformers does for Qwen2-VL, Qwen2.5-VL and, with patches of 16 pixels and the
/// means and deviations of 0.5, Qwen3-VL.
///
/// The tensor is (rows * columns, channels * temporal * patch * patch), where rows and columns are
/// those of the patches. Squares of merge * merge patches follow each other, in them rows of
/// patches. A patch contains for each channel `temporal` copies of its patch * patch pixels.
struct PatchLayout {
  std::int64_t patch = 14;    ///< side of a patch in pixels
  std::int64_t temporal = 2;  ///< frames per patch; an image is repeated
  std::int64_t merge = 2;     ///< the model merges squares with this side, in patches
  std::int64_t min_pixels = std::int64_t{56} * 56;
  std::int64_t max_pixels = std::int64_t{28} * 28 * 1280;
};

/// The size nearest to `image` whose sides are multiples of `factor` and whose area is from
/// `min_pixels` to `max_pixels`: smart_resize() of transformers. Sides are at least `factor`, so
/// that the area of a narrow image may exceed `max_pixels`. Throws Error (kInvalidArgument) if one
/// side is more than 200 times the other, and for numbers less than 1.
ImageSize smart_resize(ImageSize image, std::int64_t factor, std::int64_t min_pixels,
                       std::int64_t max_pixels);

// --- Tiles ---

/// Resizes the image to a grid of tiles, tile_grid(), and cuts it, as GotOcr2ImageProcessor of
/// Hugging Face's transformers, the processor of InternVL, does with crop_to_patches. The tensor is
/// (tiles, channels, height, width), row by row. With more than one tile, the last one is a
/// thumbnail: the whole image in the size of a tile.
struct TileLayout {
  std::int64_t width = 448;  ///< of a tile in pixels
  std::int64_t height = 448;
  std::int64_t min_tiles = 1;  ///< without the thumbnail
  std::int64_t max_tiles = 12;
  bool thumbnail = true;
};

/// The most tiles that TileLayout accepts.
inline constexpr std::int64_t kMaxTiles = 1024;

/// The grid of min_tiles to max_tiles whose ratio of width to height is nearest to that of `image`.
/// Among equal ratios: a larger grid if the area of the image is more than half of its pixels.
/// Throws Error (kInvalidArgument) for an invalid layout or size.
ImageGrid tile_grid(ImageSize image, const TileLayout& layout);

// --- The layout of a transform ---

/// The tensor of the whole image, as OutputFormat defines it.
struct WholeLayout {};

using ImageLayout = std::variant<WholeLayout, PatchLayout, TileLayout>;

}  // namespace energon
