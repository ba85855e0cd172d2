#include "media/transform/sound.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr float kBelowOne = 0x1.fffffep-1F;

void check_same_size(std::size_t from, std::size_t to) {
  if (from != to) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} samples need room for as many, there is room for {}", from, to));
  }
}

}  // namespace

void to_float_samples(std::span<const std::int16_t> from, std::span<float> to) {
  check_same_size(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = static_cast<float>(from[i]) * 0x1p-15F;
  }
}

void to_float_samples(std::span<const std::int32_t> from, std::span<float> to) {
  check_same_size(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = std::min(static_cast<float>(from[i]) * 0x1p-31F, kBelowOne);
  }
}

void to_float_samples(std::span<const std::uint8_t> from, std::span<float> to) {
  check_same_size(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = static_cast<float>(from[i] - 128) * 0x1p-7F;
  }
}

void to_mono(std::span<const float> from, int channels, std::span<float> to) {
  if (channels < 1 || from.size() % static_cast<std::size_t>(channels) != 0 ||
      from.size() / static_cast<std::size_t>(channels) != to.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} samples of {} channels are not {} frames", from.size(), channels,
                            to.size()));
  }
  const auto count = static_cast<std::size_t>(channels);
  for (std::size_t frame = 0; frame < to.size(); ++frame) {
    double sum = 0;
    for (std::size_t channel = 0; channel < count; ++channel) {
      sum += static_cast<double>(from[frame * count + channel]);
    }
    to[frame] = static_cast<float>(sum / channels);
  }
}

}  // namespace energon
