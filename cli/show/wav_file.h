// Samples of sound as a WAVE file (RIFF), with one "fmt " and one "data" chunk.

#pragma once

#include <cstdint>
#include <string>

#include "energon/sample/sample.h"

namespace energon::cli {

/// `samples` is (channels, samples): floats, or integers as they are; uint8 is unsigned, as WAVE
/// has it. `rate` is in samples per second. Throws Error (kInvalidArgument) for another shape, a
/// rate that is not from 1 to 2^32 - 1, and more than 4 GiB.
std::string wav_of_samples(const Tensor& samples, std::int64_t rate);

}  // namespace energon::cli
