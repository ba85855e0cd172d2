// The file JOB in a folder of checkpoints: what the ranks that begin there have in common.
//
// Ranks without a Comm compare configuration and data through it, before the first of them delivers
// a batch: the first one writes it, the others compare. Beside it `ranks/rank_<r>` says that rank r
// has begun there. docs/formats/checkpoint.md gives the format.

#pragma once

#include <string>

#include "energon/state/savable.h"

namespace energon {

inline constexpr const char* kJobFileName = "JOB";
inline constexpr const char* kBegunFolder = "ranks";

/// Throws Error (kMismatch) with all differences if the ranks that began in `folder` had another
/// configuration in common than `common` (common_config()); kIo, kCorruptData. With `replace`, for
/// a start that is to forget an earlier one, writes it anew instead.
void agree_through_folder(const std::string& folder, const Config& common, bool replace);

/// Notes that `rank` begins in `folder`. Throws Error (kIo).
void note_begin(const std::string& folder, int rank);

/// Whether ranks have begun in `folder`, but `rank` has not: it is late, and they may have written
/// their files of the first checkpoint already.
bool is_late(const std::string& folder, int rank);

}  // namespace energon
