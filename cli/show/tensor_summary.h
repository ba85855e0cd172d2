// What a tensor holds, in a few numbers.

#pragma once

#include <cstdint>
#include <vector>

#include "energon/sample/sample.h"

namespace energon::cli {

/// Of the numbers that are finite; `count` 0: there are none, and the others are 0.
struct TensorSummary {
  std::int64_t count = 0;
  std::int64_t not_finite = 0;
  double least = 0;
  double most = 0;
  double mean = 0;
  double deviation = 0;  ///< of all numbers: the square root of their mean squared distance
};

TensorSummary summarize(const Tensor& tensor);

/// The first `most` elements, as numbers. An int64 beyond 2^53 is rounded.
std::vector<double> first_elements(const Tensor& tensor, std::size_t most);

}  // namespace energon::cli
