// What a rank tells the others in a collective in which it may fail: a result or an Error.
//
// A rank that fails still takes part, so that nobody waits for it in vain.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "io/error.h"

namespace energon {

std::string success(std::string_view result);
std::string failure(const Error& error);

/// The result in `reply`, which must outlive it. Throws the Error that it holds instead.
std::string_view result_of(std::string_view reply);
/// The same of the reply of `rank`, which the Error then names.
std::string_view result_of(std::size_t rank, std::string_view reply);

}  // namespace energon
