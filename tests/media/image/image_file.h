// Test images in data/, and ways to damage them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/bytes.h"
#include "io/hash.h"
#include "media/image/image_decoder.h"

namespace energon::testing {

/// The bytes of tests/media/image/data/`name`.
std::string image_file(const std::string& name);

/// The bytes of the file at `path`.
std::string file_bytes(const std::string& path);

/// The result of decoding `encoded` with `options`, as XXH3-64.
std::uint64_t decoded_hash(const std::string& encoded, const ImageOptions& options);

/// The decoded pixels.
std::string decoded(const std::string& encoded, const ImageOptions& options);

/// Decodes the whole image and its parts, and probes it. Each call must return a result or throw an
/// Error. Returns true if the whole image was decoded.
bool survives(const std::string& encoded);

}  // namespace energon::testing
