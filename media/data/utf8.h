// Checks that texts are UTF-8, as RFC 3629 and table 3-7 of the Unicode standard define it: no
// overlong forms, no surrogates, nothing above U+10FFFF. Internal to media/data.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon {

/// Bytes before the first one that is not part of a well-formed character; text.size() if there is
/// none. Thread-safe.
std::size_t valid_utf8_prefix(std::string_view text);

/// A copy of `bytes` as text. `what` begins the message and `position` is the place of the first
/// byte in the encoded data. Throws Error (kCorruptData) with place and value of the first byte
/// that is not UTF-8.
std::string utf8_text(ByteView bytes, const char* what, std::size_t position);

}  // namespace energon
