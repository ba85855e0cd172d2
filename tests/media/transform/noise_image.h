// Images of noise, like those of make_vectors.py, and comparisons of pixels.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <hwy/targets.h>

#include "io/bytes.h"
#include "io/json.h"
#include "media/transform/pixels.h"

namespace energon::testing {

using Pixels = std::vector<std::byte>;

inline Pixels noise(std::int64_t width, std::int64_t height, int channels) {
  Pixels pixels(static_cast<std::size_t>(width * height * channels));
  std::uint32_t state = 1;
  for (std::byte& level : pixels) {
    state = state * 1103515245U + 12345U;
    level = static_cast<std::byte>(state >> 24);
  }
  return pixels;
}

/// level / 256, as float32.
inline Pixels as_floats(const Pixels& levels) {
  std::vector<float> numbers(levels.size());
  std::transform(levels.begin(), levels.end(), numbers.begin(),
                 [](std::byte level) { return static_cast<float>(level) / 256; });
  Pixels pixels(levels.size() * sizeof(float));
  std::memcpy(pixels.data(), numbers.data(), pixels.size());
  return pixels;
}

inline Pixels from_vector(std::string_view base64) {
  const std::string bytes = from_base64(base64).value();
  Pixels pixels(bytes.size());
  std::memcpy(pixels.data(), bytes.data(), bytes.size());
  return pixels;
}

template <class Number>
std::vector<Number> numbers_in(ByteView bytes) {
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

/// The largest difference of elements; 1e9 if the sizes differ.
template <class Number>
double largest_difference(ByteView a, ByteView b) {
  const std::vector<Number> x = numbers_in<Number>(a);
  const std::vector<Number> y = numbers_in<Number>(b);
  double most = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
  }
  return most;
}

/// Calls body() once for each set of instructions that this processor has and the library was built
/// for.
template <class Body>
void with_all_instructions(const Body& body) {
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace energon::testing
