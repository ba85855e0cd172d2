// The check of options that are a time in seconds.

#pragma once

#include <CLI/CLI.hpp>

namespace energon::cli {

/// Accepts decimal numbers from a millisecond up to thirty years; not nan, which every comparison
/// would let pass. The message has the value and the bounds.
CLI::Validator seconds();

}  // namespace energon::cli
