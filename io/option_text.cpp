#include "io/option_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace energon {

std::string option_name(std::string_view name, OptionCaller caller) {
  switch (caller) {
    case OptionCaller::kCommandLine: {
      std::string flag = fmt::format("--{}", name);
      std::replace(flag.begin(), flag.end(), '_', '-');
      return flag;
    }
    case OptionCaller::kPython:
      return fmt::format("{}=", name);
  }
  return std::string(name);
}

// --- Bytes ---

namespace {

constexpr std::array<std::pair<std::string_view, int>, 4> kByteUnits = {
    {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}};

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  int shift = 0;
  for (const auto& [unit, bits] : kByteUnits) {
    if (text.ends_with(unit)) {
      text.remove_suffix(unit.size());
      shift = bits;
      break;
    }
  }
  const auto number = parse_number<std::uint64_t>(text);
  return number && (*number << shift) >> shift == *number ? std::optional(*number << shift)
                                                          : std::nullopt;
}

std::string bytes_text(std::uint64_t bytes) {
  for (const auto& [unit, bits] : kByteUnits) {
    if (bytes != 0 && bytes % (std::uint64_t{1} << bits) == 0) {
      return fmt::format("{}{}", bytes >> bits, unit);
    }
  }
  return std::to_string(bytes);
}

// --- Times ---

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  if (text == "none") {
    return std::chrono::milliseconds::max();
  }
  // "ms" before "s", which it ends with.
  constexpr std::array<std::pair<std::string_view, double>, 4> kTimeUnits = {
      {{"ms", 1}, {"s", 1000}, {"min", 60'000}, {"h", 3'600'000}}};
  double milliseconds_per_unit = 1000;
  for (const auto& [unit, milliseconds] : kTimeUnits) {
    if (text.ends_with(unit)) {
      text.remove_suffix(unit.size());
      milliseconds_per_unit = milliseconds;
      break;
    }
  }
  constexpr double kMostMilliseconds = 1e15;
  const auto number = parse_number<double>(text);
  // Comparisons with nan are false.
  if (!number || !(*number >= 0 && *number * milliseconds_per_unit <= kMostMilliseconds)) {
    return std::nullopt;
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(*number * milliseconds_per_unit));
}

std::string duration_text(std::chrono::milliseconds duration) {
  if (duration == std::chrono::milliseconds::max()) {
    return "none";
  }
  return duration.count() % 1000 == 0 ? fmt::format("{}s", duration.count() / 1000)
                                      : fmt::format("{}ms", duration.count());
}

// --- Misspelled names ---

namespace {

std::size_t edits_between(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates) {
  const std::string* nearest = nullptr;
  std::size_t fewest = name.size() / 3 + 1;
  for (const std::string& candidate : candidates) {
    if (const std::size_t edits = edits_between(name, candidate); edits < fewest) {
      nearest = &candidate;
      fewest = edits;
    }
  }
  return nearest == nullptr ? std::nullopt : std::optional(*nearest);
}

}  // namespace energon
