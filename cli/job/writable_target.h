// Whether a file that is written at the end of a long run can be written, asked at its beginning.

#pragma once

#include <string>

namespace energon::cli {

/// Throws Error if nothing can be written to `path`, the value of `option`: kNotFound if its folder
/// is not there, kIo if no file can be made in it, or if what is there and no regular file cannot
/// be written to. Leaves nothing behind.
void check_writable(const std::string& path, const std::string& option);

}  // namespace energon::cli
