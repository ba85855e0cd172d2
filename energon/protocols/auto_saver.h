// Saves the position of a loader every so many batches, and continues from there: what IBM's
// CheckpointDataset does.
//
//   AutoSavingLoader loader(pipeline, {.worker_config = {.rank = rank, .world_size = 8}},
//                           {.folder = "run7/loader", .every_batches = 100});
//   while (auto batch = loader.next()) { … }   // after a restart, from the newest checkpoint
//
// Ranks share the folder (energon/protocols/checkpoint_folder.h) and do not wait for each other,
// neither to save nor to continue. They must save at the same step of an epoch, so their epochs
// must have equally many batches: those of data that is repeated, virtual ones. Ranks that drifted
// apart within an epoch make no complete checkpoint. Those that are in different epochs do: their
// steps cannot be compared, and each rank goes on where it was.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/loader/savable_data_loader.h"

namespace energon {

struct AutoSaveOptions {
  /// Shared by all ranks; made if it is not there.
  std::string folder;

  /// Batches of each rank between two checkpoints, at least 1. A save costs a small file.
  std::int64_t every_batches = 1000;

  /// Where to begin while `folder` has no complete checkpoint: another folder of checkpoints, one
  /// checkpoint of it, or a state file of this rank or of its job. Steps are then counted from 0.
  /// Empty: at the start of the data.
  std::string load_from = {};

  /// Complete checkpoints that stay, at least 1; older ones are removed. Absent: all. One more
  /// stays while ranks are still writing the newest.
  std::optional<std::int64_t> keep = std::nullopt;
};

/// Throws Error (kInvalidArgument) that names option, value and range.
void validate(const AutoSaveOptions& options);

/// Beside a loader whose batches somebody else takes. For one thread at a time.
class AutoSaver {
 public:
  /// Continues from the newest complete checkpoint of the folder, else from `load_from`. The state
  /// of a job on another layout is rescaled to that of `loader`, which must live as long as this.
  /// Requires: no rank saves before all ranks have made theirs; a trainer whose ranks take steps
  /// together does so. Throws Error: of validate(), find_newest_checkpoint(), rescale() and
  /// restore_state_rank(); kNotFound if there is nothing complete at `load_from`; kMismatch if the
  /// job has logical shards that `loader` does not have, with the options to set: a job that left
  /// their number to the default keeps it, and Energon's division, on another layout.
  AutoSaver(SavableDataLoader& loader, AutoSaveOptions options);
  AutoSaver(const AutoSaver&) = delete;
  AutoSaver& operator=(const AutoSaver&) = delete;

  /// Counts a batch of the loader as taken, and saves if it is time. Throws as save_if_due().
  void count_batch();

  /// Saves if the checkpoint of this step is due and not written. Only after an Error there is
  /// something to do. Throws Error (kIo; of save_state_rank()).
  void save_if_due();

  /// Saves at this step, due or not, unless it is saved already: before the process ends. Only what
  /// all ranks save at the same step is a checkpoint to go on from. Throws Error (kIo; of
  /// save_state_rank()).
  void save_now();

  /// Batches of this rank: since the folder's first checkpoint, over all restarts.
  std::int64_t step() const { return step_; }
  /// The checkpoint or file that the loader was restored from; nothing: it began at the start.
  const std::optional<std::string>& restored_from() const { return restored_from_; }
  /// Checkpoints that were passed over when it was made, because they are not complete: the path
  /// and what is wrong. Worth a warning.
  const std::vector<std::string>& ignored() const { return ignored_; }

 private:
  void restore();

  const AutoSaveOptions options_;
  SavableDataLoader& loader_;
  std::int64_t step_ = 0;
  std::int64_t saved_step_ = 0;
  std::optional<std::string> restored_from_;
  std::vector<std::string> ignored_;
};

/// A loader with its saver. For one thread at a time.
class AutoSavingLoader {
 public:
  /// Throws as the constructors of both.
  AutoSavingLoader(PipelineFactory make_pipeline, const LoaderOptions& options,
                   AutoSaveOptions auto_save);

  /// As SavableDataLoader::next(). A checkpoint that is due is written before its last batch is
  /// returned. Throws also as AutoSaver::save_if_due(); the next call tries again and loses
  /// nothing.
  std::optional<Sample> next();

  const AutoSaver& saver() const { return saver_; }
  /// For everything else. Its next() would pass the saver by.
  SavableDataLoader& loader() { return loader_; }

 private:
  SavableDataLoader loader_;
  AutoSaver saver_;
  std::optional<Sample> pending_;  // taken, and counted, but not returned: the save failed
};

}  // namespace energon
