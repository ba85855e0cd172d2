#include "cli/show/heat_map_image.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <png.h>

#include "cli/show/outcome.h"
#include "io/error.h"
#include "io/file_source.h"

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
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(map.columns);
  image.height = static_cast<png_uint_32>(map.rows);
  image.format = PNG_FORMAT_GRAY;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(size, '\0');
  const bool is_written =
      png_image_write_to_memory(&image, png.data(), &size, 0, pixels.data(), 0, nullptr) != 0;
  if (!is_written) {
    throw Error(ErrorCode::kInternal, fmt::format("cannot write the heat map: {}", image.message));
  }
  png.resize(size);
  return png;
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
