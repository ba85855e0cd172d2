// From decoded sound to the tensors of training samples: one channel, another sample rate, and
// log-mel spectrograms as Whisper's.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "media/decode_limits.h"
#include "media/tensor_decoder.h"

namespace energon {

// --- Samples ---

/// The mean of the channels of `samples`, (channels, samples) as an AvDecoder returns them, as
/// numbers from -1 to 1: integers are divided by 2^(bits - 1). Throws Error (kInvalidArgument) for
/// another shape, no channels, or another dtype.
std::vector<float> mono_samples(const Tensor& samples);

/// Sample rates that resampling accepts.
inline constexpr int kLeastSampleRate = 100;
inline constexpr int kMostSampleRate = 768'000;

/// Returns `sound`, (channels, samples) of any format, at another rate, as float32 with 1 for full
/// scale: ceil(samples * to_rate / from_rate) samples, of which the first is at the time of the
/// first of `sound`. Uses a sinc with a Hann window, with the numbers of
/// torchaudio.functional.resample() and its default arguments (6 zero crossings, rolloff 0.99);
/// before and after the sound is silence. The same rate only changes the format. Throws Error:
/// kInvalidArgument as mono_samples() and if a rate is not from kLeastSampleRate to
/// kMostSampleRate; kResourceExhausted above limits.max_bytes.
Tensor resampled(const Tensor& sound, int from_rate, int to_rate, const DecodeLimits& limits,
                 BufferAllocator& memory);

// --- Log-mel spectrograms ---

/// The features of WhisperFeatureExtractor of Hugging Face's transformers, which other models of
/// sound use, too.
///
/// A frame begins every `hop` samples. It is the power spectrum of `fft` samples around that place
/// under a Hann window, with the sound mirrored at both ends. Powers are summed by triangular
/// filters of the Slaney scale from 0 to 8000 Hz. Their logarithms x to base 10 are raised to at
/// least the largest one minus 8, then they become (x + 4) / 4.
struct LogMelOptions {
  std::int64_t mels = 80;     ///< filters: 80, or 128 for Whisper large-v3
  std::int64_t hop = 160;     ///< samples from one frame to the next
  std::int64_t fft = 400;     ///< samples of a frame; even
  std::int64_t seconds = 30;  ///< longer sound is cut
  bool pad = true;            ///< shorter sound is padded with silence
};

struct SoundTransformOptions {
  int sample_rate = 16'000;  ///< of the result, in samples per second
  /// Unset: the samples.
  std::optional<LogMelOptions> log_mel = std::nullopt;
  DecodeLimits limits = {};  ///< max_bytes applies to the resampled sound and to the tensor
};

struct MelPlan;  // in kernels.h

/// Immutable and thread-safe.
class SoundTransform {
 public:
  /// Throws Error (kInvalidArgument) for options out of range.
  explicit SoundTransform(SoundTransformOptions options);

  /// Samples per channel at `rate` that affect the result; later ones need not be decoded. nullopt
  /// means all.
  std::optional<std::int64_t> needed_samples(int rate) const;

  /// The features of `samples`, (channels, samples) of `rate`: float32 (mels, frames) or, without
  /// log_mel, float32 (samples). The features are within 2e-4 of those of transformers. Throws
  /// Error: kInvalidArgument as resampled(), and if sound that is not padded is
  /// too short to be mirrored, that is, not longer than fft / 2 samples.
  Tensor run(const Tensor& samples, int rate, BufferAllocator& memory) const;

 private:
  SoundTransformOptions options_;
  std::shared_ptr<const MelPlan> plan_;  // null without log_mel
};

}  // namespace energon
