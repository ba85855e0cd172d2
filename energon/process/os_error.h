// Errors of system calls in this folder.

#pragma once

#include <string_view>

#include "io/error.h"

namespace energon {

/// As io_error(), but kResourceExhausted with the limit to raise where the number means a limit,
/// and kUnsupported for ENOSYS.
Error os_error(std::string_view operation, int error_number);

}  // namespace energon
