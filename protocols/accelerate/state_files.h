// Saves the states of a job's loaders in a checkpoint folder: one file per loader and rank.
//
// File names are accelerate's with the rank added, because ranks that share a folder would
// otherwise overwrite each other's files: `dl_state_dict.bin` and `dl_state_dict_1.bin` of rank 0,
// `dl_state_dict.rank3.bin` and `dl_state_dict_1.rank3.bin` of rank 3.
// docs/formats/adapter_state.md gives the format.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "energon/loader/batch_source.h"

namespace energon {

/// File name for the loader at index `loader` on rank `rank`.
std::string state_file_name(std::size_t loader, int rank);

/// Convert the state of a source to its file form and back. decode_state_file() throws Error:
/// kCorruptData (truncated, altered or not a state file), kUnsupported (newer version), kMismatch
/// (state of another rank or loader).
std::string encode_state_file(const SavableDataLoaderState& state, std::size_t loader, int rank);
SavableDataLoaderState decode_state_file(std::string_view bytes, std::size_t loader, int rank);

/// Saves the position of each loader of this rank. Each file is written atomically. Throws Error
/// (kIo).
void save_states(const std::string& folder, std::span<BatchSource* const> loaders, int rank);

/// Restores each loader whose file exists and returns the names of the missing files. Loaders
/// without a file start from their beginning; the caller should report that. All files are read
/// before any loader is restored. Throws Error of decode_state_file() with the path, and of
/// restore_state_rank(); ends the workers first.
std::vector<std::string> restore_states(const std::string& folder,
                                        std::span<BatchSource* const> loaders, int rank);

}  // namespace energon
