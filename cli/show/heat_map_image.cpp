#include "cli/show/heat_map_image.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "cli/show/outcome.h"
#include "cli/show/png_file.h"
#include "io/file.h"

namespace energon::cli {
namespace {

constexpr int kWhite = 255;

// Square root: single deliveries stay visible beside cells of many.
int grey_of(std::uint32_t count, std::uint32_t largest) {
  const double share = std::sqrt(static_cast<double>(count) / static_cast<double>(largest));
  return kWhite - static_cast<int>(std::lround(share * kWhite));
}

std::uint32_t largest_of(const HeatMap& map) {
  const auto largest = std::max_element(map.counts.begin(), map.counts.end());
  return largest == map.counts.end() ? 1 : std::max<std::uint32_t>(*largest, 1);
}

}  // namespace

std::string to_svg(const HeatMap& map) {
  const std::uint32_t largest = largest_of(map);
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
      R"(shape-rendering="crispEdges">)"
      "\n<title>samples (downwards) by steps (to the right)</title>\n"
      R"(<rect width="{0}" height="{1}" fill="#fff"/>)"
      "\n",
      map.columns, map.rows);
  for (std::size_t row = 0; row < map.rows; ++row) {
    for (std::size_t column = 0; column < map.columns; ++column) {
      if (const std::uint32_t count = map.at(column, row); count > 0) {
        fmt::format_to(std::back_inserter(svg),
                       R"(<rect x="{}" y="{}" width="1" height="1" fill="#{:02x}{:02x}{:02x}"/>)"
                       "\n",
                       column, row, grey_of(count, largest), grey_of(count, largest),
                       grey_of(count, largest));
      }
    }
  }
  return svg + "</svg>\n";
}

std::string to_png(const HeatMap& map) {
  const std::uint32_t largest = largest_of(map);
  std::vector<std::uint8_t> pixels;
  pixels.reserve(map.counts.size());
  for (const std::uint32_t count : map.counts) {
    pixels.push_back(static_cast<std::uint8_t>(grey_of(count, largest)));
  }
  return png_of_pixels(std::as_bytes(std::span(pixels)), static_cast<std::int64_t>(map.columns),
                       static_cast<std::int64_t>(map.rows), 1);
}

void write_heat_map(const std::string& path, const HeatMap& map) {
  if (path.ends_with(".svg")) {
    write_file_atomically(path, as_bytes(to_svg(map)));
  } else if (path.ends_with(".png")) {
    write_file_atomically(path, as_bytes(to_png(map)));
  } else {
    throw UsageError{fmt::format("--heatmap is '{}', it must end in .svg or .png", path)};
  }
}

}  // namespace energon::cli
