// Converts what a pipeline threw into an Error that a loader can keep and rethrow.

#pragma once

#include <exception>

#include "io/error.h"

namespace energon {

/// Returns an Error unchanged. Any other exception becomes an Error that describes it:
/// kResourceExhausted for lack of memory, else kUserFunction.
Error pipeline_failure(const std::exception_ptr& thrown);

}  // namespace energon
