// Carries a failure out of a thread, a process or a rank: any exception becomes an Error, an Error
// becomes bytes, and the bytes become the Error again.
//
// The bytes are not a stable format: both sides are the same build. They are checked all the same,
// because a process that fails may have written anything.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "io/error.h"

namespace energon {

/// The Error for `thrown`, which must not be null. Returns an Error unchanged. std::bad_alloc
/// becomes kResourceExhausted; any other exception becomes `code`. Their messages begin with
/// `source`, which names what failed: "the pipeline failed: out of memory". An empty `source` gives
/// the cause alone.
Error to_error(const std::exception_ptr& thrown, std::string_view source,
               ErrorCode code = ErrorCode::kUserFunction);

/// The code with this number; nullopt if there is none.
std::optional<ErrorCode> error_code(std::uint8_t number);

/// The most bytes that encode_error() returns.
inline constexpr std::size_t kMaxEncodedErrorBytes =
    (std::size_t{192} << 10) + kMaxErrorDetailBytes + 32;

/// Encodes `error` in at most `most_bytes`, which must be at least 256. Cuts the message, and
/// leaves out what is too long of the rest: path and sample key (a part would name something else)
/// and detail (a part would be of no use).
std::string encode_error(const Error& error, std::size_t most_bytes = kMaxEncodedErrorBytes);

/// Throws Error (kCorruptData) if `encoded` is not the result of encode_error().
Error decode_error(std::string_view encoded);

}  // namespace energon
