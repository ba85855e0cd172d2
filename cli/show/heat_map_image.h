// A heat map as a picture: time from left to right, the data from top to bottom, dark where much
// was delivered.

#pragma once

#include <string>

#include "cli/show/order_analysis.h"

namespace energon::cli {

/// As text.
std::string to_svg(const HeatMap& map);
/// 8 bits of grey, one pixel a cell. Throws Error (kInternal) if libpng refuses.
std::string to_png(const HeatMap& map);

/// By the ending of `path`: .svg or .png. Throws UsageError for another one, Error (kIo).
void write_heat_map(const std::string& path, const HeatMap& map);

}  // namespace energon::cli
