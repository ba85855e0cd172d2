// A folder of checkpoints that the ranks of a job share: `step_<n>/rank_<r>.state`, a file of each
// rank.
//
// No rank waits for another. Each file is written atomically, and a checkpoint counts once the
// files of all ranks of its world are there, can be read, and are of one job at one step
// (merge_states()). Anything else is passed over and named. docs/formats/checkpoint.md gives the
// format of the files.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/loader/job_state.h"
#include "energon/loader/loader_state.h"

namespace energon {

/// "step_100", the folder of a checkpoint, and "rank_3.state", the file of a rank in it.
std::string checkpoint_name(std::int64_t step);
std::string rank_file_name(int rank);

/// A checkpoint that is complete.
struct FolderCheckpoint {
  std::int64_t step = 0;
  std::string path;
  SavableJobState job;
};

struct CheckpointSearch {
  std::optional<FolderCheckpoint> newest;  ///< nothing: there is no complete one
  /// Those of later steps that are not complete: the path, and what is wrong.
  std::vector<std::string> ignored;
};

/// The state of the job in the folder of one checkpoint. Files of ranks that its world does not
/// have are left-overs of a larger one and passed over. Throws Error: kNotFound if the file of a
/// rank is missing; kCorruptData if a folder is in its place, or a file in that of the checkpoint;
/// of read_loader_state() and merge_states().
SavableJobState read_checkpoint(const std::string& path);

/// The newest complete checkpoint in `folder`; of a folder that does not exist, nothing. Throws
/// Error (kIo, kUnsupported) where a file may well be whole but cannot be read: ranks that fell
/// back to an older checkpoint one by one would part.
CheckpointSearch find_newest_checkpoint(const std::string& folder);

/// Writes the file of the state's rank into the checkpoint of `step`, making folders as needed.
/// Throws Error (kIo).
void write_checkpoint(const std::string& folder, std::int64_t step,
                      const SavableDataLoaderState& state);

/// Whether all ranks wrote their files into the checkpoint of `step`; reads none of them.
bool has_all_files(const std::string& folder, std::int64_t step, int world_size);

/// Removes what is older than the `keep` newest complete checkpoints, if there are so many. Files
/// of others in their folders stay. Several ranks may call it at once. Throws Error (kIo).
void remove_old_checkpoints(const std::string& folder, std::int64_t keep);

}  // namespace energon
