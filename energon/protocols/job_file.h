// The file JOB in a folder of checkpoints: what the ranks that start there have in common.
//
// Ranks without a Comm compare configuration and data through this file when they start: the first
// rank writes it, the others compare. A file `ranks/rank_<r>` next to it says that rank r has
// started there. docs/formats/checkpoint.md gives the format.

#pragma once

#include <string>

#include "energon/state/savable.h"

namespace energon {

inline constexpr const char* kJobFileName = "JOB";
inline constexpr const char* kBegunFolder = "ranks";

/// Compares `common` (common_config()) with the file and creates the file if there is none. Throws
/// Error: kMismatch with the differences (at most 40) if the ranks that started in `folder` have
/// another configuration; kIo, kCorruptData. With `replace`, for a start that discards an earlier
/// one, overwrites the file instead.
void agree_through_folder(const std::string& folder, const Config& common, bool replace);

/// Records that `rank` has started in `folder`. Throws Error (kIo).
void note_begin(const std::string& folder, int rank);

/// True if other ranks have started in `folder` but `rank` has not. The others may then already
/// have written their files of the first checkpoint.
bool is_late(const std::string& folder, int rank);

}  // namespace energon
