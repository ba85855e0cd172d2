// Shows a part of a sample as a few lines of text.

#pragma once

#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon::cli {

/// Size and kind, then the beginning of text, numbers and JSON, or what the header of media says.
/// Lines after the first are indented. Safe for a terminal.
std::string preview_part(std::string_view name, ByteView bytes);

}  // namespace energon::cli
