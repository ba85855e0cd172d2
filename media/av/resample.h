// Changes the sample rate of sound.

#pragma once

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "media/decode_limits.h"

namespace energon {

/// The largest sample rate for resampled().
inline constexpr int kMaxSampleRate = 768000;

/// Returns sound (channels, samples) of any format at another rate, as float32 with 1 for full
/// scale: ceil(samples * to / from) samples, of which the first is at the time of the first of
/// `sound`. Uses the filter of torchaudio's resample(): a sinc with 6 zero crossings on each side
/// and a Hann window, rolled off at 0.99 of the lower Nyquist frequency; before and after the sound
/// is silence. The same rate only changes the format. Throws Error: kInvalidArgument unless 1 <= to
/// <= kMaxSampleRate; kUnsupported for such a `from`; kResourceExhausted above limits.max_bytes.
Tensor resampled(const Tensor& sound, int from, int to, const DecodeLimits& limits,
                 BufferAllocator& memory);

}  // namespace energon
