// The part of resample() that needs libsoxr. Internal to media/transform.

#pragma once

#include <cstdint>
#include <span>

#include "media/transform/sound.h"

namespace energon {

/// Fills `to` as resample() does. Requires: resample() has checked the arguments, the rates differ
/// and `to` is not empty. Throws Error: kInternal with the message of libsoxr; kUnsupported in a
/// build without it.
void resample_frames(std::span<const float> from, int channels, std::int64_t from_rate,
                     std::int64_t to_rate, std::span<float> to, ResampleQuality quality);

}  // namespace energon
