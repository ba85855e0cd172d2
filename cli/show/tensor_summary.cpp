#include "cli/show/tensor_summary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace energon::cli {
namespace {

template <class Number>
Number stored_number(const std::byte* at) {
  Number number{};
  std::memcpy(&number, at, sizeof(number));
  return number;
}

// IEEE 754, binary16.
double number_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F;
  const double fraction = bits & 0x3FF;
  double magnitude = 0;
  if (exponent == 0x1F) {
    magnitude = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double element_of(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kBool:
      return std::to_integer<std::uint8_t>(*at);
    case DType::kInt8:
      return stored_number<std::int8_t>(at);
    case DType::kInt16:
      return stored_number<std::int16_t>(at);
    case DType::kInt32:
      return stored_number<std::int32_t>(at);
    case DType::kInt64:
      return static_cast<double>(stored_number<std::int64_t>(at));
    case DType::kFloat16:
      return number_of_half(stored_number<std::uint16_t>(at));
    case DType::kBFloat16:
      return std::bit_cast<float>(std::uint32_t{stored_number<std::uint16_t>(at)} << 16);
    case DType::kFloat32:
      return stored_number<float>(at);
    case DType::kFloat64:
      return stored_number<double>(at);
  }
  return NAN;
}

template <class Visit>
void for_each_element(const Tensor& tensor, std::size_t most, const Visit& visit) {
  const std::size_t size = size_of(tensor.dtype);
  const std::size_t count = size == 0 ? 0 : std::min(tensor.data.size() / size, most);
  for (std::size_t i = 0; i < count; ++i) {
    visit(element_of(tensor.dtype, tensor.data.view.data() + i * size));
  }
}

}  // namespace

TensorSummary summarize(const Tensor& tensor) {
  TensorSummary summary;
  double squares = 0;  // Welford's sum of squared distances
  for_each_element(tensor, SIZE_MAX, [&](double number) {
    if (!std::isfinite(number)) {
      ++summary.not_finite;
      return;
    }
    summary.least = summary.count == 0 ? number : std::min(summary.least, number);
    summary.most = summary.count == 0 ? number : std::max(summary.most, number);
    ++summary.count;
    const double distance = number - summary.mean;
    summary.mean += distance / static_cast<double>(summary.count);
    squares += distance * (number - summary.mean);
  });
  if (summary.count > 0) {
    summary.deviation = std::sqrt(squares / static_cast<double>(summary.count));
  }
  return summary;
}

std::vector<double> first_elements(const Tensor& tensor, std::size_t most) {
  std::vector<double> elements;
  for_each_element(tensor, most, [&](double number) { elements.push_back(number); });
  return elements;
}

}  // namespace energon::cli
