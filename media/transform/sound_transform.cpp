#include "media/transform/sound_transform.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/kernels.h"

namespace energon {

// --- Samples ---

namespace {

template <class Number>
void add_channel(const std::byte* from, double zero, double scale, std::vector<double>& to) {
  for (double& sum : to) {
    Number number = {};
    std::memcpy(&number, from, sizeof number);
    from += sizeof number;
    sum += (static_cast<double>(number) - zero) * scale;
  }
}

// Adds the samples of a channel to `to`.
void add_channel(const Tensor& sound, std::int64_t channel, std::vector<double>& to) {
  const std::byte* from =
      sound.data.view.data() + static_cast<std::size_t>(channel) * to.size() * size_of(sound.dtype);
  switch (sound.dtype) {
    case DType::kUInt8:
      return add_channel<std::uint8_t>(from, 128, 0x1p-7, to);
    case DType::kInt16:
      return add_channel<std::int16_t>(from, 0, 0x1p-15, to);
    case DType::kInt32:
      return add_channel<std::int32_t>(from, 0, 0x1p-31, to);
    case DType::kInt64:
      return add_channel<std::int64_t>(from, 0, 0x1p-63, to);
    case DType::kFloat32:
      return add_channel<float>(from, 0, 1, to);
    case DType::kFloat64:
      return add_channel<double>(from, 0, 1, to);
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("samples of {}: expected uint8, int16, int32, int64, float32 or "
                              "float64",
                              to_string(sound.dtype)));
  }
}

void check_is_sound(const Tensor& samples) {
  if (samples.shape.size() != 2 || samples.shape[0] < 1) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("sound with {} dimensions{}: expected (channels, samples)",
                    samples.shape.size(), samples.shape.size() == 2 ? " and no channels" : ""));
  }
}

void check_rate(int rate) {
  if (rate < kLeastSampleRate || rate > kMostSampleRate) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a sample rate of {} Hz: expected {} to {}", rate, kLeastSampleRate,
                            kMostSampleRate));
  }
}

// torchaudio's defaults.
constexpr double kZeroCrossings = 6;
constexpr double kRolloff = 0.99;

// Two sample rates, divided by their greatest common divisor.
struct RateRatio {
  std::int64_t from;
  std::int64_t to;

  RateRatio(int from_rate, int to_rate)
      : from(from_rate / std::gcd(from_rate, to_rate)),
        to(to_rate / std::gcd(from_rate, to_rate)) {}

  std::int64_t result_size(std::int64_t samples) const { return (samples * to + from - 1) / from; }
  double cutoff() const { return static_cast<double>(std::min(from, to)) * kRolloff; }
  /// Samples on each side that affect a sample of the result.
  std::int64_t reach() const {
    return static_cast<std::int64_t>(
        std::ceil(kZeroCrossings * static_cast<double>(from) / cutoff()));
  }
};

// The weights of the samples for one phase of the result.
struct PhaseFilter {
  std::int64_t first = 0;  // relative to the first sample of the period
  std::vector<float> weights = {};
};

PhaseFilter phase_filter(const RateRatio& ratio, std::int64_t phase) {
  const auto from = static_cast<double>(ratio.from);
  const double center = static_cast<double>(phase * ratio.from) / static_cast<double>(ratio.to);
  const double reach = kZeroCrossings * from / ratio.cutoff();  // in samples
  PhaseFilter filter = {.first = static_cast<std::int64_t>(std::ceil(center - reach))};
  const auto last = static_cast<std::int64_t>(std::floor(center + reach));
  for (std::int64_t i = filter.first; i <= last; ++i) {
    const double angle =
        (static_cast<double>(i) - center) / from * ratio.cutoff() * std::numbers::pi;
    const double window = std::cos(angle / kZeroCrossings / 2);
    const double sinc = angle == 0 ? 1 : std::sin(angle) / angle;
    filter.weights.push_back(static_cast<float>(sinc * window * window * (ratio.cutoff() / from)));
  }
  return filter;
}

std::vector<float> resample(std::span<const float> samples, const RateRatio& ratio) {
  const std::int64_t size = std::ssize(samples);
  const std::int64_t result_size = ratio.result_size(size);
  std::vector<float> result(static_cast<std::size_t>(result_size));
  for (std::int64_t phase = 0; phase < std::min(ratio.to, result_size); ++phase) {
    const PhaseFilter filter = phase_filter(ratio, phase);
    const std::int64_t taps = std::ssize(filter.weights);
    std::int64_t first = filter.first;
    for (std::int64_t i = phase; i < result_size; i += ratio.to, first += ratio.from) {
      // Samples outside the sound are 0.
      const std::int64_t begin = std::clamp<std::int64_t>(first, 0, size);
      const std::int64_t end = std::clamp<std::int64_t>(first + taps, begin, size);
      result[static_cast<std::size_t>(i)] = kernels::weighted_samples(
          samples.data() + begin, filter.weights.data() + (begin - first), end - begin);
    }
  }
  return result;
}

}  // namespace

std::vector<float> mono_samples(const Tensor& samples) {
  check_is_sound(samples);
  std::vector<double> sums(static_cast<std::size_t>(samples.shape[1]), 0.0);
  for (std::int64_t channel = 0; channel < samples.shape[0]; ++channel) {
    add_channel(samples, channel, sums);
  }
  std::vector<float> result(sums.size());
  std::ranges::transform(sums, result.begin(), [&](double sum) {
    return static_cast<float>(sum / static_cast<double>(samples.shape[0]));
  });
  return result;
}

Tensor resampled(const Tensor& sound, int from_rate, int to_rate, const DecodeLimits& limits,
                 BufferAllocator& memory) {
  check_rate(from_rate);
  check_rate(to_rate);
  check_is_sound(sound);
  const RateRatio ratio(from_rate, to_rate);
  const std::int64_t channels = sound.shape[0];
  const std::int64_t size = sound.shape[1];
  const std::int64_t result_size = ratio.result_size(size);
  check_decoded_bytes("the resampled sound",
                      static_cast<std::uint64_t>(channels * result_size) * sizeof(float), limits);
  NewTensor result = new_tensor(DType::kFloat32, {channels, result_size}, memory);
  std::span<std::byte> next = result.bytes;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    std::vector<double> sums(static_cast<std::size_t>(size), 0.0);
    add_channel(sound, channel, sums);
    std::vector<float> samples(sums.begin(), sums.end());
    if (from_rate != to_rate) {
      samples = resample(samples, ratio);
    }
    std::ranges::copy(std::as_bytes(std::span(samples)), next.begin());
    next = next.subspan(samples.size() * sizeof(float));
  }
  return std::move(result.tensor);
}

// --- Log-mel spectrograms ---

namespace {

constexpr double kHighestMelHz = 8000;
constexpr float kLeastPower = 1e-10F;
constexpr float kMostRange = 8;  // decades

// The Slaney scale: linear up to 1000 Hz, then logarithmic.
constexpr double kBreakHz = 1000;
constexpr double kBreakMel = 15;

double mel_of_hertz(double hertz) {
  return hertz < kBreakHz ? 3 * hertz / 200
                          : kBreakMel + std::log(hertz / kBreakHz) * (27 / std::log(6.4));
}

double hertz_of_mel(double mel) {
  return mel < kBreakMel ? 200 * mel / 3
                         : kBreakHz * std::exp((std::log(6.4) / 27) * (mel - kBreakMel));
}

// The weight of each frequency has an area of 1 Hz per filter.
void make_filters(const LogMelOptions& options, int sample_rate, MelPlan& plan) {
  const std::int64_t bins = options.fft / 2 + 1;
  const double bin_hertz = std::floor(sample_rate / 2.0) / static_cast<double>(bins - 1);
  const double mel_step = mel_of_hertz(kHighestMelHz) / static_cast<double>(options.mels + 1);
  const auto edge = [&](std::int64_t i) { return hertz_of_mel(mel_step * static_cast<double>(i)); };
  for (std::int64_t mel = 0; mel < options.mels; ++mel) {
    const double low = edge(mel);
    const double middle = edge(mel + 1);
    const double high = edge(mel + 2);
    MelPlan::Filter filter = {.first = 0, .count = 0};
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      const double hertz = static_cast<double>(bin) * bin_hertz;
      const double weight =
          std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      if (weight <= 0) {
        continue;
      }
      filter.first = filter.count == 0 ? static_cast<std::int32_t>(bin) : filter.first;
      ++filter.count;
      plan.weights.push_back(static_cast<float>(weight * 2 / (high - low)));
    }
    plan.filters.push_back(filter);
  }
}

// Appends exp(-2 pi i part / whole).
void add_root(std::int64_t part, std::int64_t whole, std::vector<float>& to) {
  const double angle =
      -2 * std::numbers::pi * static_cast<double>(part % whole) / static_cast<double>(whole);
  to.push_back(static_cast<float>(std::cos(angle)));
  to.push_back(static_cast<float>(std::sin(angle)));
}

std::int64_t next_radix(std::int64_t length) {
  for (const std::int64_t radix : {4, 2, 5, 3}) {
    if (length % radix == 0) {
      return radix;
    }
  }
  std::int64_t radix = 7;
  while (length % radix != 0) {
    radix += 2;
  }
  return radix;
}

void make_stages(std::int64_t length, MelPlan& plan) {
  for (std::int64_t stride = 1; length > 1;) {
    const std::int64_t radix = next_radix(length);
    MelPlan::Stage stage = {
        .radix = radix, .count = length / radix, .stride = stride, .twiddles = {}};
    for (std::int64_t p = 0; p < stage.count; ++p) {
      for (std::int64_t k = 1; k < radix; ++k) {
        add_root(p * k, length, stage.twiddles);
      }
    }
    for (std::int64_t k = 0; k < radix; ++k) {
      add_root(k, radix, stage.roots);
    }
    plan.stages.push_back(std::move(stage));
    stride *= radix;
    length /= radix;
  }
}

MelPlan make_plan(const LogMelOptions& options, int sample_rate) {
  MelPlan plan;
  plan.fft = options.fft;
  plan.hop = options.hop;
  for (std::int64_t i = 0; i < options.fft; ++i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(options.fft);
    plan.window.push_back(static_cast<float>(0.5 - 0.5 * std::cos(angle)));
  }
  make_stages(options.fft / 2, plan);
  for (std::int64_t k = 0; k <= options.fft / 4; ++k) {
    add_root(k, options.fft, plan.real_twiddles);
  }
  make_filters(options, sample_rate, plan);
  return plan;
}

void check_range(const char* name, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("LogMelOptions::{} of {}: must be from 1 to {}", name, value, most));
  }
}

void validate(const LogMelOptions& options) {
  check_range("mels", options.mels, 1024);
  check_range("hop", options.hop, 1 << 16);
  check_range("fft", options.fft, 1 << 16);
  check_range("seconds", options.seconds, 86'400);
  if (options.fft % 2 != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("LogMelOptions::fft of {}: must be even", options.fft));
  }
}

// The first `size` samples, silence after the end of the sound, with fft / 2 mirrored samples on
// both sides. Silence after the last frame that is not silent is left out.
std::vector<float> with_borders(std::span<const float> samples, std::int64_t size,
                                std::int64_t border, std::int64_t needed) {
  const auto at = [&](std::int64_t i) {
    i = i < 0 ? -i : i < size ? i : 2 * size - 2 - i;
    return i < std::ssize(samples) ? samples[static_cast<std::size_t>(i)] : 0.0F;
  };
  std::vector<float> result(static_cast<std::size_t>(needed), 0.0F);
  const std::int64_t whole = std::min({std::ssize(samples), size, needed - border});
  std::copy_n(samples.begin(), std::max<std::int64_t>(whole, 0), result.begin() + border);
  for (std::int64_t i = 0; i < std::min(border, needed); ++i) {
    result[static_cast<std::size_t>(i)] = at(i - border);
  }
  for (std::int64_t i = border + size; i < needed; ++i) {
    result[static_cast<std::size_t>(i)] = at(i - border);
  }
  return result;
}

void write_logarithms(std::span<float> powers) {
  float most = -std::numeric_limits<float>::infinity();
  for (float& value : powers) {
    value = std::log10(std::max(value, kLeastPower));
    most = std::max(most, value);
  }
  for (float& value : powers) {
    value = (std::max(value, most - kMostRange) + 4) / 4;
  }
}

Tensor log_mel(const MelPlan& plan, std::span<const float> samples, std::int64_t size,
               BufferAllocator& memory) {
  const std::int64_t border = plan.fft / 2;
  const std::int64_t frames = size / plan.hop;
  const auto filters = std::ssize(plan.filters);
  NewTensor result = new_tensor(DType::kFloat32, {filters, frames}, memory);
  const std::span<float> values = {reinterpret_cast<float*>(result.bytes.data()),
                                   static_cast<std::size_t>(filters * frames)};
  // Frames after the sound are silent. Sound near the end is mirrored into the last frames.
  const bool is_mirrored = std::ssize(samples) + border >= size;
  const std::int64_t loud =
      is_mirrored ? frames
                  : std::min(frames, (std::ssize(samples) + border + plan.hop - 1) / plan.hop);
  if (loud > 0) {
    const std::vector<float> signal =
        with_borders(samples, size, border, (loud - 1) * plan.hop + plan.fft);
    std::vector<float> scratch(plan.scratch());
    kernels::mel_powers(plan, signal.data(), loud, frames, values.data(), scratch.data());
  }
  for (std::int64_t filter = 0; filter < filters; ++filter) {
    std::fill_n(values.begin() + filter * frames + loud, frames - loud, 0.0F);
  }
  write_logarithms(values);
  return std::move(result.tensor);
}

}  // namespace

SoundTransform::SoundTransform(SoundTransformOptions options) : options_(options) {
  check_rate(options.sample_rate);
  if (options.log_mel) {
    validate(*options.log_mel);
    plan_ = std::make_shared<const MelPlan>(make_plan(*options.log_mel, options.sample_rate));
  }
}

std::optional<std::int64_t> SoundTransform::needed_samples(int rate) const {
  if (!options_.log_mel) {
    return std::nullopt;
  }
  check_rate(rate);
  const RateRatio ratio(rate, options_.sample_rate);
  return options_.log_mel->seconds * rate + ratio.reach() + ratio.from;
}

Tensor SoundTransform::run(const Tensor& samples, int rate, BufferAllocator& memory) const {
  std::vector<float> mono = mono_samples(samples);
  if (rate != options_.sample_rate) {
    check_rate(rate);
    const RateRatio ratio(rate, options_.sample_rate);
    const std::int64_t size = ratio.result_size(std::ssize(mono));
    check_decoded_bytes("the resampled sound", static_cast<std::uint64_t>(size) * sizeof(float),
                        options_.limits);
    mono = resample(mono, ratio);
  }
  if (!options_.log_mel) {
    NewTensor result = new_tensor(DType::kFloat32, {std::ssize(mono)}, memory);
    std::ranges::copy(std::as_bytes(std::span(mono)), result.bytes.begin());
    return std::move(result.tensor);
  }
  const LogMelOptions& log_mel_options = *options_.log_mel;
  const std::int64_t longest = log_mel_options.seconds * options_.sample_rate;
  const std::int64_t size = log_mel_options.pad ? longest : std::min(longest, std::ssize(mono));
  if (size <= log_mel_options.fft / 2) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} samples of sound at {} Hz: without padding, a spectrogram needs "
                            "more than {}",
                            size, options_.sample_rate, log_mel_options.fft / 2));
  }
  check_decoded_bytes("the spectrogram",
                      static_cast<std::uint64_t>(log_mel_options.mels) *
                          static_cast<std::uint64_t>(size / log_mel_options.hop) * sizeof(float),
                      options_.limits);
  return log_mel(*plan_,
                 std::span(mono).first(static_cast<std::size_t>(std::min(size, std::ssize(mono)))),
                 size, memory);
}

}  // namespace energon
