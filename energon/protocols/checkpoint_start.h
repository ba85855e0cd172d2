// Where a run begins: the checkpoint that it continues from, and a rank's part of it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/order/worker_config.h"
#include "energon/protocols/checkpoint_folder.h"
#include "energon/protocols/checkpoint_mark.h"

namespace energon {

/// A place to begin at.
struct CheckpointStart {
  std::int64_t step = 0;  ///< of the folder of checkpoints; 0 elsewhere
  std::string path = {};  ///< a checkpoint, or a state file
  /// Of the checkpoint; nothing of a state file.
  std::optional<CheckpointMark> mark = std::nullopt;
};

/// The checkpoints of a folder, newest first, for one that is about to continue from it. Each that
/// it looks at is decided for all ranks.
class CheckpointCandidates {
 public:
  explicit CheckpointCandidates(std::string folder);

  /// Whether there is anything that is called as a checkpoint is.
  bool any() const { return !steps_.empty(); }
  /// The next complete one; nothing at the end. Throws Error of decide_checkpoint().
  std::optional<CheckpointStart> next();
  /// The one of `step`. Throws Error (kNotFound) that lists those that are complete if it is not.
  CheckpointStart at(std::int64_t step);
  /// From now on those after `step` do not count.
  void set_aside_after(std::int64_t step);
  /// Whether one is complete, without deciding any.
  bool any_complete() const;
  /// From now on none of those that are there counts.
  void set_all_aside(const std::string& reason);
  /// From now on that one does not count.
  void set_aside(const CheckpointStart& start, const std::string& reason);

  /// What next() passed over: the path, and why.
  const std::vector<std::string>& ignored() const { return ignored_; }
  /// "complete are those of the steps 6, 3", at most 20 of them and not `but`, without deciding
  /// any.
  std::string describe_complete(std::int64_t but) const;

 private:
  std::string path_of(std::int64_t step) const;

  const std::string folder_;
  std::vector<std::int64_t> steps_;
  std::size_t next_ = 0;
  std::vector<std::string> ignored_;
};

/// What `load_from` means: a state file, a checkpoint, or a folder of checkpoints, of which it is
/// the newest complete one; what was passed over goes to `ignored`. Decides nothing: the folder is
/// another run's. Throws Error (kNotFound).
CheckpointStart start_of(const std::string& load_from, std::vector<std::string>& ignored);

/// The part of a rank of `layout` in a checkpoint or a state file. Opens the rank's own file only,
/// unless the job has another layout; then it is rescaled. Throws Error with the path: kNotFound,
/// kCorruptData, also if a file is not of the checkpoint's job and step; of rescale(); kMismatch
/// with the options to set if the job has logical shards that the layout has not.
SavableDataLoaderState part_of(const CheckpointStart& start, const WorkerConfig& layout);

}  // namespace energon
