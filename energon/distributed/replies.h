// What a rank sends in a collective when its own part may fail: a result or an Error.
//
// A rank that fails still takes part, so that no other rank waits for it in vain.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "io/error.h"

namespace energon {

std::string success(std::string_view result);
std::string failure(const Error& error);

/// The result in `reply`, which must outlive the result. If `reply` holds an Error, throws it.
std::string_view result_of(std::string_view reply);
/// Same for the reply of `rank`; the Error then names that rank.
std::string_view result_of(std::size_t rank, std::string_view reply);

}  // namespace energon
