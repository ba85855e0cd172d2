#include "media/av/resample.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr double kZeroCrossings = 6;
constexpr double kRolloff = 0.99;

// The weights of one phase, from the sample `first` on, relative to the first of its period.
struct Phase {
  std::int64_t first = 0;
  std::vector<float> weights;
};

// Output sample i * to + p is the sum of the weights of phase p over samples from i * from on.
// Requires: rates without common divisor.
std::vector<Phase> filter_of(std::int64_t from, std::int64_t to) {
  const double cutoff = static_cast<double>(std::min(from, to)) * kRolloff;
  const double reach = kZeroCrossings * static_cast<double>(from) / cutoff;  // in samples
  std::vector<Phase> phases(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    Phase& phase = phases[static_cast<std::size_t>(i)];
    const double center = static_cast<double>(i * from) / static_cast<double>(to);
    phase.first = static_cast<std::int64_t>(std::ceil(center - reach));
    const auto last = static_cast<std::int64_t>(std::floor(center + reach));
    for (std::int64_t sample = phase.first; sample <= last; ++sample) {
      const double t = (static_cast<double>(sample) - center) * cutoff / static_cast<double>(from);
      const double angle = std::numbers::pi * t;
      const double window = std::pow(std::cos(angle / (2 * kZeroCrossings)), 2);
      const double sinc = angle == 0 ? 1 : std::sin(angle) / angle;
      phase.weights.push_back(
          static_cast<float>(sinc * window * cutoff / static_cast<double>(from)));
    }
  }
  return phases;
}

template <class Stored>
void append_scaled(std::span<const std::byte> from, double middle, double scale,
                   std::vector<float>& to) {
  for (std::size_t i = 0; i < from.size(); i += sizeof(Stored)) {
    Stored value;
    std::memcpy(&value, from.data() + i, sizeof(value));
    to.push_back(static_cast<float>((static_cast<double>(value) - middle) * scale));
  }
}

std::vector<float> floats_of(std::span<const std::byte> samples, DType dtype) {
  std::vector<float> result;
  result.reserve(samples.size() / size_of(dtype));
  switch (dtype) {
    case DType::kUInt8:
      append_scaled<std::uint8_t>(samples, 128, 1.0 / 128, result);
      break;
    case DType::kInt16:
      append_scaled<std::int16_t>(samples, 0, std::ldexp(1, -15), result);
      break;
    case DType::kInt32:
      append_scaled<std::int32_t>(samples, 0, std::ldexp(1, -31), result);
      break;
    case DType::kInt64:
      append_scaled<std::int64_t>(samples, 0, std::ldexp(1, -63), result);
      break;
    case DType::kFloat32:
      append_scaled<float>(samples, 0, 1, result);
      break;
    case DType::kFloat64:
      append_scaled<double>(samples, 0, 1, result);
      break;
    default:
      throw Error(ErrorCode::kInternal, fmt::format("sound of {}", to_string(dtype)));
  }
  return result;
}

float weighted_sum(const Phase& phase, std::int64_t period, std::span<const float> samples) {
  const std::int64_t first = period + phase.first;
  const std::int64_t begin = std::max<std::int64_t>(0, -first);
  const auto count = static_cast<std::int64_t>(phase.weights.size());
  const std::int64_t end = std::min(count, std::ssize(samples) - first);
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    sum += static_cast<double>(phase.weights[static_cast<std::size_t>(i)]) *
           static_cast<double>(samples[static_cast<std::size_t>(first + i)]);
  }
  return static_cast<float>(sum);
}

void check_rates(int from, int to) {
  if (to < 1 || to > kMaxSampleRate) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("audio_sample_rate is {}, expected 1 to {}", to, kMaxSampleRate));
  }
  if (from < 1 || from > kMaxSampleRate) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("sound of {} Hz cannot be resampled, only that of 1 to {} Hz", from,
                            kMaxSampleRate));
  }
}

}  // namespace

Tensor resampled(const Tensor& sound, int from, int to, const DecodeLimits& limits,
                 BufferAllocator& memory) {
  check_rates(from, to);
  const std::int64_t divisor = std::gcd(from, to);
  const std::int64_t from_period = from / divisor;
  const std::int64_t to_period = to / divisor;
  const std::int64_t channels = sound.shape.at(0);
  const std::int64_t samples = sound.shape.at(1);
  const std::int64_t made = (samples * to_period + from_period - 1) / from_period;
  check_decoded_bytes("the resampled sound",
                      static_cast<std::uint64_t>(channels * made) * sizeof(float), limits);
  NewTensor result = new_tensor(DType::kFloat32, {channels, made}, memory);
  const std::vector<Phase> phases = from_period == to_period
                                        ? std::vector<Phase>{{.first = 0, .weights = {1}}}
                                        : filter_of(from_period, to_period);
  const std::size_t channel_bytes = static_cast<std::size_t>(samples) * size_of(sound.dtype);
  std::byte* next = result.bytes.data();
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const std::vector<float> values = floats_of(
        sound.data.view.subspan(static_cast<std::size_t>(channel) * channel_bytes, channel_bytes),
        sound.dtype);
    for (std::int64_t i = 0; i < made; ++i) {
      const Phase& phase = phases[static_cast<std::size_t>(i % to_period)];
      const float value = weighted_sum(phase, i / to_period * from_period, values);
      std::memcpy(next, &value, sizeof(value));
      next += sizeof(value);
    }
  }
  return std::move(result.tensor);
}

}  // namespace energon
