// A folder of checkpoints that the ranks of a job share. Each checkpoint `step_<n>` has a file
// `rank_<r>.state` for each rank and a mark `COMPLETE` (energon/autosave/checkpoint_mark.h), which
// decides whether the checkpoint counts.
//
// No rank waits for another. Each file is written atomically. A folder has no mark while ranks are
// still writing it, and if they were killed while writing. It then counts if the files of all ranks
// exist, can be read, and belong to one job at one step (merge_states()).
// docs/formats/checkpoint.md gives the format of the files.
//
// Before its state file, each rank creates an empty file `position_<digits>`. The digits are
// computed from its position, so ranks at the same step of the same job create the same name. A
// single such name shows that all files belong to one step, without reading them. Only if there are
// several names, perhaps from earlier starts, are the state files read to check.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "energon/autosave/checkpoint_mark.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "io/file.h"

namespace energon {

// --- Names in the folder ---

/// An upper bound for the number of steps of a run.
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 42;

/// The name of a checkpoint's folder, such as "step_100", and of a rank's file in it, such as
/// "rank_3.state".
std::string checkpoint_name(std::int64_t step);
std::string rank_file_name(int rank);

/// The step in the name of a checkpoint, from 1 on; nullopt if `name` is not such a name.
std::optional<std::int64_t> step_in(const std::string& name);
/// Whether `name` is the name of a checkpoint, but of a step above kMostSteps.
bool is_beyond_steps(std::string_view name);

/// The name of a position file; `digits` are 16 hexadecimal digits.
std::string position_file_name(std::string_view digits);

bool is_rank_file(std::string_view name);
bool is_position_file(std::string_view name);
/// Whether `name` is the name of a file in a checkpoint, or of a temporary one of it.
bool is_checkpoint_file(std::string_view name);

// --- The folder ---

/// The steps for which `folder` has an entry with the name of a checkpoint, from 1 on, newest
/// first. None if the folder does not exist. Throws Error (kIo; kCorruptData for a step above
/// kMostSteps).
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

/// A complete checkpoint.
struct FolderCheckpoint {
  std::int64_t step = 0;
  std::string path;
  SavableJobState job;
};

struct CheckpointSearch {
  std::optional<FolderCheckpoint> newest;  ///< nullopt if none is complete
  /// Later checkpoints that are not complete: path and reason.
  std::vector<std::string> ignored;
};

/// Reads the state of the job from the folder of one checkpoint. Ignores files of ranks beyond the
/// job's world size, which a larger job left. Throws Error: kNotFound if the file of a rank is
/// missing; kCorruptData if the path of a rank's file is a folder or the path of the checkpoint is
/// a file; of read_loader_state() and merge_states().
SavableJobState read_checkpoint(const std::string& path);

/// Finds the newest complete checkpoint in `folder`, or none if the folder does not exist. Reads
/// the files of all ranks and writes no mark. Throws Error of read_mark(), and kIo or kUnsupported
/// if a file may be whole but cannot be read: a rank must not fall back to an older checkpoint
/// alone.
CheckpointSearch find_newest_checkpoint(const std::string& folder);

/// Returns the mark of a checkpoint. If it has none, reads the files of all ranks and returns the
/// mark that they justify. Writes nothing. Throws Error as find_newest_checkpoint().
CheckpointMark judge_checkpoint(const std::string& path);

/// Like judge_checkpoint(), but always judges by the files of all ranks and ignores an existing
/// mark. Throws Error as find_newest_checkpoint().
CheckpointMark judge_files(const std::string& path);

/// Like judge_checkpoint(), but also publishes the mark, so that ranks that ask later, or at the
/// same time, get the same answer. Throws Error (kIo) too.
CheckpointMark decide_checkpoint(const std::string& path);

/// Writes the state file of the state's rank into the checkpoint of `step`, after the position
/// file. Creates folders as needed. Throws Error (kIo).
void write_checkpoint(const std::string& folder, std::int64_t step,
                      const SavableDataLoaderState& state);

/// The names of the files in a checkpoint.
struct CheckpointFiles {
  std::set<std::string> ranks;      ///< names of rank files
  std::set<std::string> positions;  ///< names of position files
};

/// Lists the folder once and opens no file. Empty if the folder does not exist. Throws Error (kIo).
CheckpointFiles checkpoint_files(const std::string& path);

/// Rank files by name, with an identity that changes when the file is written again.
using RankFiles = std::map<std::string, FileIdentity>;

/// The rank files in the checkpoint `path`. Throws Error (kIo).
RankFiles rank_files(const std::string& path);

/// True if `files`, the listing of the checkpoint `path`, has the files of all ranks and each has
/// changed since `stale`.
bool has_all_files(const std::string& path, const CheckpointFiles& files, const RankFiles& stale,
                   int world_size);

/// Removes all checkpoints older than the `keep` newest complete ones. Reads the marks of those
/// that it keeps. Files in the folders that are not part of a checkpoint stay. Several ranks may
/// call it at once. Throws Error (kIo).
void remove_old_checkpoints(const std::string& folder, std::int64_t keep);

}  // namespace energon
