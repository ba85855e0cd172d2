// Samples of sound: to float32, to one channel, to another rate.
//
// float32 samples are in [-1, 1). Sound is interleaved: (frames, channels). All functions write
// into memory of the caller and are thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace energon {

// sample / 2^15, sample / 2^31, and (sample - 128) / 128 of unsigned 8-bit samples. The largest
// 32-bit samples would be rounded to 1 and become the largest number below it. Throw Error
// (kInvalidArgument) unless both are of the same size.
void to_float_samples(std::span<const std::int16_t> from, std::span<float> to);
void to_float_samples(std::span<const std::int32_t> from, std::span<float> to);
void to_float_samples(std::span<const std::uint8_t> from, std::span<float> to);

/// The mean of the channels of each frame. `to` may begin where `from` does. Throws Error
/// (kInvalidArgument) unless `from` has `channels` samples for each one of `to`.
void to_mono(std::span<const float> from, int channels, std::span<float> to);

/// What resampling costs and keeps.
enum class ResampleQuality : std::uint8_t {
  kQuick,     ///< cubic interpolation
  kLow,       ///< 16 bit, the band up to 80 %
  kMedium,    ///< 16 bit, the band up to 91 %
  kHigh,      ///< 20 bit, the band up to 91 %
  kVeryHigh,  ///< 28 bit, the band up to 91 %
};

/// Frames after resampling: frames * to_rate / from_rate, rounded up, as torchaudio. Throws Error
/// (kInvalidArgument) unless rates are 1 to 2^24 and frames are 0 to 2^40; kUnsupported if the
/// rates differ by a factor of more than 256.
std::int64_t resampled_frames(std::int64_t frames, std::int64_t from_rate, std::int64_t to_rate);

/// Resamples with libsoxr, which delays nothing: frame i of the result is at i / to_rate. The sound
/// goes on as silence behind its end. Results may differ in the last bits between processors. `to`
/// has resampled_frames() frames. Throws Error (kInvalidArgument, kUnsupported) as
/// resampled_frames() and for other sizes, kInternal with the message of libsoxr if it fails.
void resample(std::span<const float> from, int channels, std::int64_t from_rate,
              std::int64_t to_rate, std::span<float> to,
              ResampleQuality quality = ResampleQuality::kHigh);

}  // namespace energon
