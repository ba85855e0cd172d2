#include "media/transform/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include "io/error.h"
#include "media/decode_limits.h"
#include "media/transform/kernels.h"
#include "media/transform/pixels.h"

namespace energon {

// --- Filters ---

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

// Writes the weights of the pixel whose center is at `center` to `weights`, with a sum of 1.
FilterTable::Taps stretched_taps(const FilterRequest& request, double center, double stretch,
                                 double* weights) {
  const double support = filter_support(request.filter) * stretch;
  const double shrink = 1 / stretch;
  // Truncated, as Pillow does it. NOLINTBEGIN(bugprone-incorrect-roundings)
  const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
  const auto end =
      std::min<std::int64_t>(static_cast<std::int64_t>(center + support + 0.5), request.from_size);
  // NOLINTEND(bugprone-incorrect-roundings)
  double sum = 0;
  for (std::int64_t pixel = first; pixel < end; ++pixel) {
    const double x = (static_cast<double>(pixel) - center + 0.5) * shrink;
    weights[pixel - first] = filter_value(request.filter, x, true);
    sum += weights[pixel - first];
  }
  for (std::int64_t i = 0; i < end - first && sum != 0; ++i) {
    weights[i] /= sum;
  }
  return {static_cast<std::int32_t>(first), static_cast<std::int32_t>(end - first)};
}

FilterTable::Taps nearest_tap(const FilterRequest& request, double center, double* weights) {
  const auto pixel = static_cast<std::int64_t>(std::floor(center));
  weights[0] = 1;
  return {static_cast<std::int32_t>(std::clamp<std::int64_t>(pixel, 0, request.from_size - 1)), 1};
}

// Without antialiasing. Pixels before the first and after the last count as the first and the last.
FilterTable::Taps plain_taps(const FilterRequest& request, double center, double* weights) {
  const auto reach = static_cast<std::int64_t>(filter_support(request.filter));
  const double position = center - 0.5;
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
    const double center = request.begin + (static_cast<double>(i) + 0.5) * scale;
    const FilterTable::Taps taps = nearest ? nearest_tap(request, center, weights)
                                   : request.antialias
                                       ? stretched_taps(request, center, stretch, weights)
                                       : plain_taps(request, center, weights);
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

// --- Resizing ---

namespace {

const std::uint8_t* levels(const std::byte* bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes);
}
std::uint8_t* levels(std::byte* bytes) { return reinterpret_cast<std::uint8_t*>(bytes); }

void check_box(const ImageView& image, const FractionalBox& box) {
  const bool finite = std::isfinite(box.x) && std::isfinite(box.y) && std::isfinite(box.width) &&
                      std::isfinite(box.height);
  if (!finite || !(box.width > 0) || !(box.height > 0) || box.x < 0 || box.y < 0 ||
      box.x + box.width > static_cast<double>(image.width) ||
      box.y + box.height > static_cast<double>(image.height)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a box of {} x {} at ({}, {}) is not inside an image of {} x {}",
                            box.width, box.height, box.x, box.y, image.width, image.height));
  }
}

// Whether rows, or columns, stay unchanged.
bool is_whole(const FilterRequest& request) {
  return request.begin == 0 && request.length == static_cast<double>(request.from_size) &&
         request.from_size == request.to_size && !request.reversed;
}

// The rows [first, end) that the second pass needs.
FilterTable::Taps needed_rows(const FilterTable& vertical) {
  std::int32_t first = vertical.taps.front().first;
  std::int32_t end = first;
  for (const FilterTable::Taps& taps : vertical.taps) {
    first = std::min(first, taps.first);
    end = std::max(end, taps.first + taps.count);
  }
  return {first, end - first};
}

// A copy of the last row, with padding so that it may be read beyond its end.
const std::uint8_t* guarded_row(const ImageView& image, std::int64_t y,
                                std::vector<std::byte>& memory) {
  const auto bytes = static_cast<std::size_t>(image.width * image.pixel_bytes());
  memory.resize(bytes + kernels::kReadAfter);
  std::memcpy(memory.data(), image.row(y), bytes);
  return levels(memory.data());
}

// The bytes of the rows between the passes. Throws Error (kResourceExhausted) if there are too
// many.
std::size_t between_bytes(FilterTable::Taps rows, std::int64_t row_bytes) {
  const auto bytes = static_cast<std::uint64_t>(rows.count * row_bytes);
  check_decoded_bytes("the image between the passes of a resize", bytes, {});
  return bytes;
}

const float* float_weights(const FilterTable& table, std::size_t place) {
  return table.weights.data() +
         place * static_cast<std::size_t>(table.groups) * FilterTable::kGroupTaps;
}

// The product of two floats is exact in double, so a fused multiply-add has the same result.
float weighted_sum(const float* pixels, std::int64_t step, std::int32_t count,
                   const float* weights) {
  double sum = 0;
  for (std::int32_t tap = 0; tap < count; ++tap) {
    sum += static_cast<double>(pixels[tap * step]) * static_cast<double>(weights[tap]);
  }
  return static_cast<float>(sum);
}

void resize_float_row(const float* row, int channels, const FilterTable& table, float* to) {
  for (std::size_t x = 0; x < table.taps.size(); ++x) {
    const FilterTable::Taps taps = table.taps[x];
    for (int channel = 0; channel < channels; ++channel) {
      const float* pixels = row + std::int64_t{taps.first} * channels + channel;
      *to++ = weighted_sum(pixels, channels, taps.count, float_weights(table, x));
    }
  }
}

// The first pass over rows [first, first + count) of `image`.
void resize_rows(const ImageView& image, FilterTable::Taps rows, const FilterTable& table,
                 std::int64_t width, std::uint8_t* to, std::vector<std::byte>& last_row) {
  const std::int64_t row_bytes = width * image.channels;
  const std::int64_t end = rows.first + rows.count;
  if (image.row_bytes < kernels::kReadAfter) {
    for (std::int64_t y = rows.first; y < end; ++y, to += row_bytes) {
      plain::resize_row(levels(image.row(y)), image.channels, table, width, to);
    }
    return;
  }
  const std::uint8_t* last = guarded_row(image, end - 1, last_row);
  for (std::int64_t y = rows.first; y < end; y += 4) {
    std::array<const std::uint8_t*, 4> from = {};
    std::array<std::uint8_t*, 4> results = {};
    for (std::int64_t r = 0; r < 4; ++r) {
      const std::int64_t place = std::min(y + r, end - 1);
      from[static_cast<std::size_t>(r)] = place == end - 1 ? last : levels(image.row(place));
      results[static_cast<std::size_t>(r)] = to + (place - rows.first) * row_bytes;
    }
    kernels::resize_rows(from, image.channels, table, width, results);
  }
}

}  // namespace

const FilterTable& Resizer::Tables::find(const FilterRequest& request) {
  for (const Entry& entry : entries_) {
    if (entry.request == request) {
      return entry.table;
    }
  }
  Entry& entry = entries_[next_];
  next_ = (next_ + 1) % entries_.size();
  entry.request = {};  // marks the entry as empty if allocation fails
  make_filter_table(request, entry.table);
  entry.request = request;
  return entry.table;
}

void Resizer::resize_bytes(const ImageView& from, const FilterTable* horizontal,
                           const FilterTable* vertical, std::int64_t width,
                           std::span<std::byte> to) {
  const std::int64_t row_bytes = width * from.channels;
  if (vertical == nullptr) {
    const FilterTable::Taps rows = {0, static_cast<std::int32_t>(from.height)};
    resize_rows(from, rows, *horizontal, width, levels(to.data()), last_row_);
    return;
  }
  const FilterTable::Taps rows = needed_rows(*vertical);
  const std::uint8_t* first = levels(from.row(rows.first));
  std::int64_t first_bytes = from.row_bytes;
  if (horizontal != nullptr) {
    if (const std::size_t bytes = between_bytes(rows, row_bytes); between_.size() < bytes) {
      between_.resize(bytes);  // never shrunk, because growing clears memory
    }
    resize_rows(from, rows, *horizontal, width, levels(between_.data()), last_row_);
    first = levels(between_.data());
    first_bytes = row_bytes;
  }
  std::uint8_t* result = levels(to.data());
  const std::int16_t* packed = vertical->packed.data();
  for (const FilterTable::Taps& taps : vertical->taps) {
    kernels::blend_rows(first + (taps.first - rows.first) * first_bytes, first_bytes, taps.count,
                        packed, row_bytes, result);
    result += row_bytes;
    packed += std::int64_t{vertical->groups} * FilterTable::kGroupNumbers;
  }
}

void Resizer::resize_floats(const ImageView& from, const FilterTable& horizontal,
                            const FilterTable& vertical, std::span<std::byte> to) {
  const FilterTable::Taps rows = needed_rows(vertical);
  const std::int64_t row_values = std::ssize(horizontal.taps) * from.channels;
  float_rows_.resize(between_bytes(rows, row_values * 4) / sizeof(float));
  float* between = float_rows_.data();
  for (std::int64_t y = 0; y < rows.count; ++y, between += row_values) {
    resize_float_row(reinterpret_cast<const float*>(from.row(rows.first + y)), from.channels,
                     horizontal, between);
  }
  auto* result = reinterpret_cast<float*>(to.data());
  for (std::size_t y = 0; y < vertical.taps.size(); ++y, result += row_values) {
    const FilterTable::Taps taps = vertical.taps[y];
    const float* first = float_rows_.data() + (taps.first - rows.first) * row_values;
    for (std::int64_t i = 0; i < row_values; ++i) {
      result[i] = weighted_sum(first + i, row_values, taps.count, float_weights(vertical, y));
    }
  }
}

void Resizer::resize(const ImageView& from, const FractionalBox& box, std::int64_t width,
                     std::int64_t height, const ResizeOptions& options, std::span<std::byte> to) {
  check_image(from);
  check_box(from, box);
  check_image_size("the resized image", width, height);
  check_room(from, width, height, to);
  FilterRequest across = {.from_size = from.width,
                          .begin = box.x,
                          .length = box.width,
                          .to_size = width,
                          .filter = options.filter,
                          .antialias = options.antialias,
                          .reversed = options.flip_horizontal,
                          .floating = from.dtype == DType::kFloat32};
  FilterRequest down = across;
  down.from_size = from.height;
  down.begin = box.y;
  down.length = box.height;
  down.to_size = height;
  down.reversed = options.flip_vertical;
  if (is_whole(across) && is_whole(down)) {
    const auto row_bytes = static_cast<std::size_t>(from.width * from.pixel_bytes());
    for (std::int64_t y = 0; y < height; ++y) {
      std::memcpy(to.data() + static_cast<std::size_t>(y) * row_bytes, from.row(y), row_bytes);
    }
  } else if (from.dtype == DType::kFloat32) {
    resize_floats(from, horizontal_.find(across), vertical_.find(down), to);
  } else {
    resize_bytes(from, is_whole(across) ? nullptr : &horizontal_.find(across),
                 is_whole(down) ? nullptr : &vertical_.find(down), width, to);
  }
}

void Resizer::resize(const ImageView& from, std::int64_t width, std::int64_t height,
                     const ResizeOptions& options, std::span<std::byte> to) {
  resize(from,
         {.x = 0,
          .y = 0,
          .width = static_cast<double>(from.width),
          .height = static_cast<double>(from.height)},
         width, height, options, to);
}

}  // namespace energon
