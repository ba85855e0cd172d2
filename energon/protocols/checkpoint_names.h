// The names in a folder of checkpoints (energon/protocols/checkpoint_folder.h).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace energon {

/// An upper bound for the number of steps of a run.
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 42;

/// The name of a checkpoint's folder, such as "step_100", and of a rank's file in it, such as
/// "rank_3.state".
std::string checkpoint_name(std::int64_t step);
std::string rank_file_name(int rank);

/// The step in the name of a checkpoint, from 1 on; nothing if `name` is none.
std::optional<std::int64_t> step_in(const std::string& name);
/// Whether `name` is the name of a checkpoint, but of a step above kMostSteps.
bool is_beyond_steps(std::string_view name);

/// The name of a position file; `digits` are 16 hexadecimal digits.
std::string position_file_name(std::string_view digits);

bool is_rank_file(std::string_view name);
bool is_position_file(std::string_view name);
/// Whether `name` is the name of a file in a checkpoint, or of a temporary one of it.
bool is_checkpoint_file(std::string_view name);

}  // namespace energon
