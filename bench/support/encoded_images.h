// Images that the benchmarks of decoding read, in memory and as files, and bare loops over the
// codecs that decode them.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/support/media_files.h"
#include "io/bytes.h"

namespace energon::bench {

/// Pixels of a picture with edges, gradients and noise: uint8 (height, width, 3). Equal seeds give
/// equal pictures.
std::vector<std::byte> picture(std::uint32_t seed, int width, int height);

std::string encode_jpeg(std::span<const std::byte> rgb, int width, int height, int quality);
std::string encode_png(std::span<const std::byte> rgb, int width, int height);
std::string encode_webp(std::span<const std::byte> rgb, int width, int height, float quality);

/// Decode into `to`, uint8 (height, width, 3), using only the library of the format. Throw Error
/// (kCorruptData).
void bare_jpeg(ByteView encoded, std::span<std::byte> to);
void bare_png(ByteView encoded, std::span<std::byte> to);
void bare_webp(ByteView encoded, std::span<std::byte> to);

/// In pixels.
struct PictureSize {
  int width = 512;
  int height = 384;
};

/// `count` pictures of a size as "jpg" (quality 92; 80 KB of 512 x 384), "png" or "webp" (quality
/// 90), in a folder below `data_folder`. Throws Error as MediaFiles; kInvalidArgument for another
/// format.
MediaFiles picture_files(const std::string& data_folder, const std::string& format,
                         PictureSize size, std::int64_t count);

}  // namespace energon::bench
