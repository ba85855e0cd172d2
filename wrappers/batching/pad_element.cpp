#include "wrappers/batching/pad_element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

std::uint16_t to_bfloat16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) {
    return 0x7fc0;
  }
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// To the nearest, ties to even. A mantissa that is rounded up carries into the exponent.
std::uint16_t to_float16(double value) {
  const double size = std::abs(value);
  std::uint32_t bits = 0;
  if (std::isnan(value)) {
    bits = 0x7e00;
  } else if (size >= 65520) {
    bits = 0x7c00;
  } else if (size < 0x1p-14) {
    bits = static_cast<std::uint32_t>(std::nearbyint(size * 0x1p24));
  } else {
    int exponent = 0;
    const double mantissa = std::nearbyint(std::frexp(size, &exponent) * 2048);
    bits = (static_cast<std::uint32_t>(exponent + 14) << 10) +
           (static_cast<std::uint32_t>(mantissa) - 1024);
  }
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000U : 0U));
}

template <class Number>
PadElement element_of(Number number) {
  PadElement element{};
  std::memcpy(element.data(), &number, sizeof(number));
  return element;
}

template <class Integer>
PadElement integer_element(double value, DType dtype) {
  // The bounds are powers of two (or zero), hence exact.
  const double end = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  const double begin = std::numeric_limits<Integer>::is_signed ? -end : 0.0;
  if (!(value >= begin && value < end) || value != std::trunc(value)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} cannot be padded with {}", to_string(dtype), value));
  }
  return element_of(static_cast<Integer>(value));
}

}  // namespace

PadElement pad_element(double value, DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return integer_element<std::uint8_t>(value, dtype);
    case DType::kInt8:
      return integer_element<std::int8_t>(value, dtype);
    case DType::kInt16:
      return integer_element<std::int16_t>(value, dtype);
    case DType::kInt32:
      return integer_element<std::int32_t>(value, dtype);
    case DType::kInt64:
      return integer_element<std::int64_t>(value, dtype);
    case DType::kBool:
      return integer_element<bool>(value, dtype);
    case DType::kFloat16:
      return element_of(to_float16(value));
    case DType::kBFloat16:
      return element_of(to_bfloat16(value));
    case DType::kFloat32:
      return element_of(static_cast<float>(value));
    case DType::kFloat64:
      return element_of(value);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} is no dtype", static_cast<unsigned>(dtype)));
}

void fill_with(std::span<std::byte> bytes, const PadElement& element, std::size_t element_size) {
  if (bytes.empty()) {
    return;
  }
  std::memcpy(bytes.data(), element.data(), element_size);
  for (std::size_t done = element_size; done < bytes.size(); done *= 2) {
    std::memcpy(bytes.data() + done, bytes.data(), std::min(done, bytes.size() - done));
  }
}

}  // namespace energon
