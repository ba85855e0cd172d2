// The options for saved positions: where a run begins, and where its position is saved.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace energon::cli {

/// Values as on the command line.
struct PositionFlags {
  std::optional<std::int64_t> save_after;
  std::string save_to;
  std::string restore_from;
  std::string auto_save;
  std::optional<std::int64_t> every;
  std::string load_from;
  std::optional<std::int64_t> at_step;
  bool start_over = false;
  std::optional<std::int64_t> keep;
  std::optional<std::int64_t> rewind_after;
  std::optional<std::int64_t> rewind_to;
};

/// Declares the options. `flags` must live as long as `command`.
void add_position_flags(CLI::App& command, PositionFlags& flags);

/// Throws UsageError if options contradict each other.
void check_position_flags(const PositionFlags& flags);

}  // namespace energon::cli
