#include "tests/media/image/image_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "io/error.h"
#include "media/image/image_decoder.h"

namespace energon::testing {
namespace {

// Damaged files may declare much more than they contain.
constexpr DecodeLimits kSmall{.max_pixels = 1 << 16, .max_bytes = 1 << 20};

// True if `body` throws no Error.
template <class Body>
bool succeeds(const Body& body) {
  try {
    body();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string image_file(const std::string& name) {
  return file_bytes(ENERGON_SOURCE_DIR "/tests/media/image/data/" + name);
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot open " + path);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string decoded(const std::string& encoded, const ImageOptions& options) {
  HeapBufferPool memory;
  return std::string(ImageDecoder(options).decode(as_bytes(encoded), memory).data.text());
}

std::uint64_t decoded_hash(const std::string& encoded, const ImageOptions& options) {
  return xxh3_64(as_bytes(decoded(encoded, options)));
}

bool survives(const std::string& encoded) {
  // In memory of exactly its size, so that the sanitizer sees reads after its end.
  const auto exact = std::make_unique<std::byte[]>(encoded.size());
  std::copy_n(as_bytes(encoded).begin(), encoded.size(), exact.get());
  const ByteView bytes(exact.get(), encoded.size());
  HeapBufferPool memory;
  succeeds([&] { probe_image(bytes, kSmall); });
  succeeds([&] {
    decode_region(bytes, {.crop = {2, 3, 7, 5}, .least_width = 3, .least_height = 2},
                  ImageChannels::kRgb, true, kSmall, memory);
  });
  return succeeds(
      [&] { ImageDecoder({.apply_orientation = true, .limits = kSmall}).decode(bytes, memory); });
}

}  // namespace energon::testing
