// Saves the position of a loader every so many batches, and continues from there: what IBM's
// CheckpointDataset does.
//
//   AutoSavingLoader loader(pipeline, {.worker_config = {.rank = rank, .world_size = 8}},
//                           {.folder = "run7/loader", .every_batches = 100});
//   while (auto batch = loader.next()) { … }   // after a restart, from the newest checkpoint
//
// Ranks share the folder (energon/protocols/checkpoint_folder.h) and do not wait for each other to
// save. They must save at the same step of an epoch, so their epochs must have equally many
// batches: those of data that is repeated, virtual ones. Ranks that drifted apart within an epoch
// make no checkpoint that can be continued from. Those that are in different epochs do: their steps
// cannot be compared, and each rank goes on where it was.
//
// All ranks continue from the same step. With a Comm rank 0 chooses it, and tells the others.
// Without one the mark of each checkpoint (energon/protocols/checkpoint_mark.h) is the choice: it
// is made once, by whoever is first.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "energon/distributed/comm.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/protocols/checkpoint_folder.h"

namespace energon {

struct CheckpointStart;

struct AutoSaveOptions {
  /// Shared by all ranks; made if it is not there.
  std::string folder;

  /// Batches of each rank between two checkpoints, at least 1. A save costs a small file.
  std::int64_t every_batches = 1000;

  /// Where to begin while `folder` has no checkpoint: another folder of checkpoints, one checkpoint
  /// of it, or a state file of this rank or of its job. Steps are then counted from 0. Empty: at
  /// the start of the data.
  std::string load_from = {};

  /// Complete checkpoints that stay, at least 1; older ones are removed. Absent: all. One more
  /// stays while ranks are still writing the newest.
  std::optional<std::int64_t> keep = std::nullopt;

  /// Begin at the checkpoint of this step, for a model that was rolled back to it: later ones are
  /// set aside, and written anew when the run gets there. 0: as start_over. Absent: at the newest.
  std::optional<std::int64_t> at_step = std::nullopt;

  /// Begin anew, at `load_from` or the start of the data, though the folder has checkpoints: they
  /// are set aside, and written over when the run gets there. Never happens by itself.
  bool start_over = false;

  /// For ranks that can talk: they compare configuration and data, and begin where rank 0 says.
  /// Only the constructor uses it, which is then a call that all ranks make. Borrowed. Null: ranks
  /// compare configuration and data through the folder, if they begin at step 0.
  Comm* comm = nullptr;
};

/// Throws Error (kInvalidArgument) that names option, value and range.
void validate(const AutoSaveOptions& options);

/// Beside a loader whose batches somebody else takes. For one thread at a time.
class AutoSaver {
 public:
  /// Continues from the newest complete checkpoint of the folder; from `load_from` if there is
  /// nothing that is called as a checkpoint is, or nothing complete and this rank begins there for
  /// the first time, later than others. Opens the rank's own file and the mark of the
  /// checkpoint only, unless the job was saved on another layout: then it is rescaled to that of
  /// `loader`, which must live as long as this. Throws Error: of validate(), rescale(),
  /// restore_state_rank() and the Comm; kNotFound if there are checkpoints but none can be used
  /// (start_over begins anew), that of at_step is not complete, or there is nothing complete at
  /// `load_from`; kNotFound, kCorruptData or kMismatch if the checkpoint is complete but this
  /// rank's file is damaged (with a Comm all ranks go back to an older one); kMismatch if the ranks
  /// do not agree on configuration and data, or if the job has logical shards that `loader` does
  /// not have, with the options to set: a job that left their number to the default keeps it, and
  /// Energon's division, on another layout. Requires without a Comm: no rank of an earlier start
  /// still runs; else a checkpoint may not become complete, which costs one, no more.
  AutoSaver(SavableDataLoader& loader, AutoSaveOptions options);
  AutoSaver(const AutoSaver&) = delete;
  AutoSaver& operator=(const AutoSaver&) = delete;

  /// Counts a batch of the loader as taken, and saves if it is time. Throws as save_if_due().
  void count_batch();

  /// Saves if the checkpoint of this step is due and not written. Only after an Error there is
  /// something to do. Opens the rank's own file, and as the last rank the mark. Throws Error (kIo;
  /// kMismatch if another rank that began at step 0 has other settings; of save_state_rank()).
  void save_if_due();

  /// Saves at this step, due or not, unless it is saved already: before the process ends. Only what
  /// all ranks save at the same step is a checkpoint to go on from. Throws Error (kIo; of
  /// save_state_rank()).
  void save_now();

  /// Batches of this rank: since the folder's first checkpoint, over all restarts.
  std::int64_t step() const { return step_; }
  /// The checkpoint or file that the loader was restored from; nothing: it began at the start.
  const std::optional<std::string>& restored_from() const { return restored_from_; }
  /// Checkpoints that were passed over when it was made, because they are not complete or were set
  /// aside: the path and why. Worth a warning. With a Comm rank 0 has them.
  const std::vector<std::string>& ignored() const { return ignored_; }

 private:
  void make_folder() const;
  bool begins_anew() const;
  std::optional<CheckpointStart> choose();
  void set_aside_rest() const;
  std::optional<CheckpointStart> choose_fresh();
  void begin_alone();
  SavableDataLoaderState part_of_rank(const CheckpointStart& start,
                                      const WorkerConfig& layout) const;
  void begin_together(Comm& comm);
  void take(const CheckpointStart& start, const SavableDataLoaderState& state);
  void note_stale_files();
  void finish_checkpoint(const SavableDataLoaderState& state);

  const AutoSaveOptions options_;
  SavableDataLoader& loader_;
  std::int64_t step_ = 0;
  std::int64_t saved_step_ = 0;
  std::optional<std::string> restored_from_;
  std::vector<std::string> ignored_;
  bool is_agreement_due_ = false;  // before the first checkpoint, through the folder
  // Of the checkpoints that were set aside before this start, by step: the id of the mark, and the
  // files that were there. They are of an earlier start.
  std::map<std::int64_t, std::string> void_ids_;
  std::map<std::int64_t, RankFiles> stale_files_;
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
