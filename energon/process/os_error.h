// Errors of system calls in this folder.

#pragma once

#include <string_view>

#include "io/error.h"

namespace energon {

/// Like io_error(), but kResourceExhausted, with the limit to raise, if `error_number` means that a
/// limit was reached, and kUnsupported for ENOSYS.
Error os_error(std::string_view operation, int error_number);

}  // namespace energon
