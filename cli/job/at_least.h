// The check of whole-number options.

#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

namespace energon::cli {

/// Accepts whole numbers from `least` up; the message has the value and the bound.
CLI::Validator at_least(std::int64_t least);

}  // namespace energon::cli
