// A validator for whole-number options.

#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

namespace energon::cli {

/// Accepts whole numbers from `least` up; the error message gives the value and the bound.
CLI::Validator at_least(std::int64_t least);

}  // namespace energon::cli
