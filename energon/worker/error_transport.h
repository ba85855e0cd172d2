// Encodes errors, so that a failure in a worker can be thrown again in the parent.
//
// Not a stable format: both sides are the same build.

#pragma once

#include <string>
#include <string_view>

#include "io/error.h"

namespace energon {

/// Each text of the error is cut after 64 KiB. The detail crosses as it is.
std::string encode_error(const Error& error);
/// Throws Error (kCorruptData).
Error decode_error(std::string_view encoded);

}  // namespace energon
