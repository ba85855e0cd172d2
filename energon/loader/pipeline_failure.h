// What a pipeline threw, as an Error that a loader keeps and throws again.

#pragma once

#include <exception>

#include "io/error.h"

namespace energon {

/// An Error as it is; else one that says what was thrown (kUserFunction; kResourceExhausted for
/// lack of memory).
Error pipeline_failure(const std::exception_ptr& thrown);

}  // namespace energon
