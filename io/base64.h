// Base64 (RFC 4648, section 4, with padding): bytes in JSON.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace energon {

std::string to_base64(std::string_view bytes);

/// Nothing if `text` is not what to_base64() gives for some bytes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace energon
