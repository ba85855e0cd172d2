// Questions to the user, on a terminal or with the answers in a pipe.

#pragma once

#include <string>

namespace energon::cli {

/// Shows what was printed so far and, on standard error, the question; returns the next line of
/// standard input without its end. Throws Error (kCancelled) at the end of the input.
std::string ask(const std::string& question);

}  // namespace energon::cli
