// Chooses where a run starts: the checkpoint to continue from, and a rank's part of it. Also the
// file JOB, through which the ranks that start in a folder compare what they must share.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/autosave/checkpoint_folder.h"
#include "energon/autosave/checkpoint_mark.h"
#include "energon/order/worker_config.h"
#include "energon/state/savable.h"

namespace energon {

/// A place to start from.
struct ResumePoint {
  std::int64_t step = 0;  ///< in the run's own folder of checkpoints; 0 for another source
  std::string path = {};  ///< a checkpoint, or a state file
  /// The mark of the checkpoint; nullopt for a state file.
  std::optional<CheckpointMark> mark = std::nullopt;
};

/// The checkpoints of a folder, newest first, for a run that is about to continue from it. Each
/// checkpoint returned or skipped is decided for all ranks.
class CheckpointCandidates {
 public:
  explicit CheckpointCandidates(std::string folder);

  /// Whether any entry has the name of a checkpoint.
  bool any() const { return !steps_.empty(); }
  /// The next complete checkpoint; nullopt at the end. Throws Error of decide_checkpoint().
  std::optional<ResumePoint> next();
  /// The checkpoint of `step`. If it is not complete, throws Error (kNotFound) with a list of the
  /// complete ones.
  ResumePoint at(std::int64_t step);
  /// Makes all checkpoints after `step` not count.
  void set_aside_after(std::int64_t step);
  /// Whether any checkpoint is complete. Decides none.
  bool any_complete() const;
  /// Makes all existing checkpoints not count.
  void set_all_aside(const std::string& reason);
  /// Makes the checkpoint `start` not count.
  void set_aside(const ResumePoint& start, const std::string& reason);

  /// Checkpoints that next() skipped: path and reason.
  const std::vector<std::string>& ignored() const { return ignored_; }
  /// Whether next() skipped a checkpoint that may have counted once: the files of all its ranks
  /// existed, or it was set aside. False if the save of each skipped one was interrupted.
  bool ignored_finished() const { return ignored_finished_; }
  /// Text for messages, such as "checkpoints of these steps are complete: 6, 3": at most 20 steps,
  /// without `but`. Decides none.
  std::string describe_complete(std::int64_t but) const;

 private:
  std::string path_of(std::int64_t step) const;

  const std::string folder_;
  std::vector<std::int64_t> steps_;
  std::size_t next_ = 0;
  std::vector<std::string> ignored_;
  bool ignored_finished_ = false;
};

/// Resolves `load_from`: a state file, a checkpoint, or a folder of checkpoints. For a folder,
/// takes the newest complete checkpoint and appends the skipped ones to `ignored`. Decides no
/// checkpoint, because the folder belongs to another run. Throws Error (kNotFound).
ResumePoint start_of(const std::string& load_from, std::vector<std::string>& ignored);

/// The part of a rank of `layout` in a checkpoint or a state file. Opens only the rank's own file,
/// unless the job has another layout; then it is rescaled. Throws Error with the path: kNotFound;
/// kCorruptData, also if a file does not belong to the checkpoint's job and step; of rescale();
/// kMismatch with the options to set if the job has logical shards that the layout lacks.
SavableDataLoaderState part_of(const ResumePoint& start, const WorkerConfig& layout);

// The file JOB in a folder of checkpoints: ranks without a Comm compare configuration and data
// through it when they start. The first rank writes it, the others compare. A file `ranks/rank_<r>`
// next to it says that rank r has started there. docs/formats/checkpoint.md gives the format.

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
