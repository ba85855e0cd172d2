// Ranges of clips. The meaning is Energon's.

#pragma once

#include <cstdint>

namespace energon {

enum class VideoUnit : std::uint8_t { kSeconds, kFrames };
enum class AudioUnit : std::uint8_t { kSeconds, kSamples };

/// From `begin` to `end`, both included. Frames and samples are whole numbers from 0. `end` may be
/// infinite.
struct ClipRange {
  double begin = 0;
  double end = 0;
};

}  // namespace energon
