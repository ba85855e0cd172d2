// Base64 (RFC 4648, section 4, with padding), for bytes in JSON.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace energon {

std::string to_base64(std::string_view bytes);

/// Decodes `text`. Returns nullopt if to_base64() cannot produce it.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace energon
