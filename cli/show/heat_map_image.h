// A heat map as an image: time from left to right, data from top to bottom, dark for many
// deliveries.

#pragma once

#include <string>

#include "cli/show/order_analysis.h"

namespace energon::cli {

/// The SVG document.
std::string to_svg(const HeatMap& map);
/// 8-bit greyscale, one pixel per cell. Throws Error (kInternal) if libpng fails.
std::string to_png(const HeatMap& map);

/// Writes the format that `path` ends in: .svg or .png. Throws UsageError for other endings, Error
/// (kIo).
void write_heat_map(const std::string& path, const HeatMap& map);

}  // namespace energon::cli
