// Reads the pickled states of Energon's loaders, in a process of its own.

#pragma once

#include <string>
#include <vector>

#include "energon/megatron/energon_state.h"

namespace energon::cli {

/// The states in `files`, in their order, read by the interpreter `python` (a path, or a name in
/// PATH) with a script that is in this program: no package is needed, and no foreign class is
/// loaded. Throws Error: kNotFound if there is no such interpreter, kCorruptData with what the
/// script says about a file, kTimeout, kCancelled after an interrupt.
std::vector<EnergonRankState> read_energon_pickles(const std::vector<std::string>& files,
                                                   const std::string& python);

}  // namespace energon::cli
