// States of the loaders of a job in a checkpoint folder: one file per loader and rank.
//
// Names are accelerate's with the rank added, because ranks that share a folder would overwrite
// each other: `dl_state_dict.bin` and `dl_state_dict_1.bin` of rank 0, `dl_state_dict.rank3.bin`
// and `dl_state_dict_1.rank3.bin` of rank 3. docs/formats/adapter_state.md gives the format.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "energon/distributed/batch_source.h"

namespace energon {

/// Name of the file of the loader at place `loader` on rank `rank`.
std::string state_file_name(std::size_t loader, int rank);

/// File form of a state and back. decode throws Error: kCorruptData (truncated, flipped, no such
/// file), kUnsupported (newer version), kMismatch (of another rank or loader).
std::string encode_state_file(const State& state, std::size_t loader, int rank);
State decode_state_file(std::string_view bytes, std::size_t loader, int rank);

/// Saves the position of each loader of this rank. Each file is written atomically. Throws Error
/// (kIo).
void save_states(const std::string& folder, std::span<BatchSource* const> loaders, int rank);

/// Restores each loader whose file is there and returns the names of the files that are not: those
/// loaders start at their beginning, which the caller should say. All files are read before any
/// loader is restored. Throws Error of decode_state_file() with the path, and of restore_state().
std::vector<std::string> restore_states(const std::string& folder,
                                        std::span<BatchSource* const> loaders, int rank);

}  // namespace energon
