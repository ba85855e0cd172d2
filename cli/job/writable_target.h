// Checks at the beginning of a long run that a file can be written at its end.

#pragma once

#include <string>

namespace energon::cli {

/// Throws Error if `path`, the value of `option`, cannot be written: kNotFound if its folder does
/// not exist; kIo if no file can be created in it, or if `path` is not a regular file and cannot be
/// written to; kInvalidArgument if it can never be an output (check_output()). Leaves nothing
/// behind.
void check_writable(const std::string& path, const std::string& option);

}  // namespace energon::cli
