// What an independent decoder gives for a file.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace energon::testing {

struct ExpectedFile {
  std::string name;
  std::int64_t frames = 0;
  /// Number and XXH3-64 of frames: uint8 (3, height, width), RGB.
  std::vector<std::pair<std::int64_t, std::uint64_t>> frame_hashes;
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  int sample_rate = 0;
  std::uint64_t sound_hash = 0;  ///< XXH3-64 of (channels, samples) in the decoder's format
};

}  // namespace energon::testing
