#include "media/transform/filter_table.h"

#include <algorithm>
#include <cmath>

namespace energon {
namespace {

double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) {
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  }
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

double filter_value(ResizeFilter filter, double x, bool antialias) {
  switch (filter) {
    case ResizeFilter::kNearest:
    case ResizeFilter::kBox:
      return x > -0.5 && x <= 0.5 ? 1 : 0;
    case ResizeFilter::kBilinear:
      return std::max(1 - std::abs(x), 0.0);
    case ResizeFilter::kBicubic:
      break;
  }
  return cubic(x, antialias ? -0.5 : -0.75);
}

double filter_support(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kNearest:
    case ResizeFilter::kBox:
      return 0.5;
    case ResizeFilter::kBilinear:
      return 1;
    case ResizeFilter::kBicubic:
      break;
  }
  return 2;
}

// Weights of the pixel whose centre is at `centre`, into `weights`, with a sum of 1.
FilterTable::Taps stretched_taps(const FilterRequest& request, double centre, double stretch,
                                 double* weights) {
  const double support = filter_support(request.filter) * stretch;
  const double shrink = 1 / stretch;
  // Truncated, as Pillow does it. NOLINTBEGIN(bugprone-incorrect-roundings)
  const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + 0.5), 0);
  const auto end =
      std::min<std::int64_t>(static_cast<std::int64_t>(centre + support + 0.5), request.from_size);
  // NOLINTEND(bugprone-incorrect-roundings)
  double sum = 0;
  for (std::int64_t pixel = first; pixel < end; ++pixel) {
    const double x = (static_cast<double>(pixel) - centre + 0.5) * shrink;
    weights[pixel - first] = filter_value(request.filter, x, true);
    sum += weights[pixel - first];
  }
  for (std::int64_t i = 0; i < end - first && sum != 0; ++i) {
    weights[i] /= sum;
  }
  return {static_cast<std::int32_t>(first), static_cast<std::int32_t>(end - first)};
}

FilterTable::Taps nearest_tap(const FilterRequest& request, double centre, double* weights) {
  const auto pixel = static_cast<std::int64_t>(std::floor(centre));
  weights[0] = 1;
  return {static_cast<std::int32_t>(std::clamp<std::int64_t>(pixel, 0, request.from_size - 1)), 1};
}

// Without antialiasing: pixels before the first and behind the last count as those.
FilterTable::Taps plain_taps(const FilterRequest& request, double centre, double* weights) {
  const auto reach = static_cast<std::int64_t>(filter_support(request.filter));
  const double position = centre - 0.5;
  const auto below = static_cast<std::int64_t>(std::floor(position));
  const std::int64_t last = request.from_size - 1;
  const std::int64_t first = std::clamp<std::int64_t>(below - reach + 1, 0, last);
  const std::int64_t end = std::clamp<std::int64_t>(below + reach, 0, last) + 1;
  std::fill(weights, weights + (end - first), 0.0);
  for (std::int64_t pixel = below - reach + 1; pixel <= below + reach; ++pixel) {
    weights[std::clamp<std::int64_t>(pixel, 0, last) - first] +=
        filter_value(request.filter, static_cast<double>(pixel) - position, false);
  }
  return {static_cast<std::int32_t>(first), static_cast<std::int32_t>(end - first)};
}

void store_packed(const double* weights, std::int32_t count, std::int16_t* packed) {
  for (std::int32_t i = 0; i < count; ++i) {
    const double scaled = weights[i] * (1 << FilterTable::kFractionBits);
    const auto fixed = static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    std::int16_t* group =
        packed + std::ptrdiff_t{i / FilterTable::kGroupTaps} * FilterTable::kGroupNumbers;
    const std::int32_t place = i % FilterTable::kGroupTaps;
    group[place] = static_cast<std::int16_t>(fixed >> FilterTable::kLowBits);
    group[place + FilterTable::kGroupTaps] =
        static_cast<std::int16_t>(fixed & ((1 << FilterTable::kLowBits) - 1));
  }
}

}  // namespace

void make_filter_table(const FilterRequest& request, FilterTable& table) {
  const double scale = request.length / static_cast<double>(request.to_size);
  const double stretch = request.antialias ? std::max(scale, 1.0) : 1.0;
  const bool nearest = request.filter == ResizeFilter::kNearest ||
                       (request.filter == ResizeFilter::kBox && !request.antialias);
  const auto most_taps =
      static_cast<std::int64_t>(std::ceil(filter_support(request.filter) * stretch)) * 2 + 1;
  table.groups = static_cast<std::int32_t>((most_taps + FilterTable::kGroupTaps - 1) /
                                           FilterTable::kGroupTaps);
  const auto outputs = static_cast<std::size_t>(request.to_size);
  const auto groups = static_cast<std::size_t>(table.groups);
  table.taps.resize(outputs);
  table.packed.assign(request.floating ? 0 : outputs * groups * FilterTable::kGroupNumbers, 0);
  table.weights.assign(request.floating ? outputs * groups * FilterTable::kGroupTaps : 0, 0);
  table.scratch.resize(groups * FilterTable::kGroupTaps);
  double* weights = table.scratch.data();
  for (std::size_t i = 0; i < outputs; ++i) {
    const double centre = request.begin + (static_cast<double>(i) + 0.5) * scale;
    const FilterTable::Taps taps = nearest ? nearest_tap(request, centre, weights)
                                   : request.antialias
                                       ? stretched_taps(request, centre, stretch, weights)
                                       : plain_taps(request, centre, weights);
    const std::size_t place = request.reversed ? outputs - 1 - i : i;
    table.taps[place] = taps;
    if (request.floating) {
      std::transform(weights, weights + taps.count,
                     table.weights.data() + place * groups * FilterTable::kGroupTaps,
                     [](double weight) { return static_cast<float>(weight); });
    } else {
      store_packed(weights, taps.count,
                   table.packed.data() + place * groups * FilterTable::kGroupNumbers);
    }
  }
}

}  // namespace energon
