// A folder of checkpoints that the ranks of a job share: `step_<n>/rank_<r>.state`, a file of each
// rank, and `step_<n>/COMPLETE` (energon/protocols/checkpoint_mark.h), which says whether they
// count.
//
// No rank waits for another. Each file is written atomically. A folder without a mark is one that
// ranks are still writing, or were killed while they did, or that an earlier version wrote: it
// counts if the files of all ranks of its world are there, can be read, and are of one job at one
// step (merge_states()). docs/formats/checkpoint.md gives the format of the files.
//
// Before its file each rank makes the empty file `position_<digits>`, whose name follows from where
// it stands: ranks that stand at one step of one job make the same. So the listing of a checkpoint
// tells whether its files may be of one step; only where there are several such names, also of
// earlier starts, are the files read to know.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/protocols/checkpoint_mark.h"
#include "io/file_source.h"

namespace energon {

/// More steps than any run takes.
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 42;

/// "step_100", the folder of a checkpoint, and "rank_3.state", the file of a rank in it.
std::string checkpoint_name(std::int64_t step);
std::string rank_file_name(int rank);

/// The steps, from 1 on, that `folder` has something named after, newest first; of a folder that
/// does not exist, none. Throws Error (kIo; kCorruptData for one above kMostSteps).
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

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

/// The newest complete checkpoint in `folder`; of a folder that does not exist, nothing. Reads the
/// files of all ranks, decides nothing. Throws Error (kIo, kUnsupported) where a file may well be
/// whole but cannot be read: ranks that fell back to an older checkpoint one by one would part.
CheckpointSearch find_newest_checkpoint(const std::string& folder);

/// The mark of a checkpoint, or the one that its files deserve. Reads the files of all ranks only
/// if there is none. Throws Error as find_newest_checkpoint().
CheckpointMark judge_checkpoint(const std::string& path);

/// The mark that the files of a checkpoint deserve, whatever it has. Reads those of all ranks.
/// Throws Error as find_newest_checkpoint().
CheckpointMark judge_files(const std::string& path);

/// The mark of a checkpoint, or the one that its files deserve, published: ranks that ask later, or
/// at the same time, get the same answer.
CheckpointMark decide_checkpoint(const std::string& path);

/// Writes the file of the state's rank into the checkpoint of `step`, making folders as needed, and
/// its position before. Throws Error (kIo).
void write_checkpoint(const std::string& folder, std::int64_t step,
                      const SavableDataLoaderState& state);

/// What a checkpoint has, by names.
struct CheckpointFiles {
  std::set<std::string> ranks;      ///< files of ranks
  std::set<std::string> positions;  ///< at which ranks have saved
};

/// Of a folder that does not exist, none. One listing, no file is opened. Throws Error (kIo).
CheckpointFiles checkpoint_files(const std::string& path);

/// Files of ranks and their versions: a file that is written anew is another.
using RankFiles = std::map<std::string, FileIdentity>;

/// Those in the checkpoint `path`. Throws Error (kIo).
RankFiles rank_files(const std::string& path);

/// Whether those of all ranks are in the checkpoint `path`, as `files` lists it, but none as it was
/// in `stale`.
bool has_all_files(const std::string& path, const CheckpointFiles& files, const RankFiles& stale,
                   int world_size);

/// Removes what is older than the `keep` newest complete checkpoints, if there are so many. Opens
/// the mark of each. Files of others in their folders stay. Several ranks may call it at once.
/// Throws Error (kIo).
void remove_old_checkpoints(const std::string& folder, std::int64_t keep);

}  // namespace energon
