// Saves the position of a rank every N batches and continues from there after a restart, like IBM's
// CheckpointDataset.
//
//   AutoSavingLoader loader(pipeline, {.worker_config = {.rank = rank, .world_size = 8}},
//                           {.folder = "run7/loader", .every_batches = 100});
//   while (auto batch = loader.next()) { … }   // after a restart, from the newest checkpoint
//
// Ranks share the folder (energon/autosave/checkpoint_folder.h) and do not wait for each other to
// save. They must save at the same step of an epoch, so the epochs of all ranks must have the same
// number of batches, as with repeated data, virtual epochs, or ranks that end together
// (ShardAdapter). If ranks save at different steps of one epoch, the checkpoint is unusable. If
// ranks are in different epochs, their steps cannot be compared; the checkpoint is usable, and each
// rank continues where it was.
//
// All ranks continue from the same step. With a Comm, rank 0 chooses the step and tells the others.
// Without one, the mark of each checkpoint (energon/autosave/checkpoint_mark.h) decides; the first
// rank to need it writes it, once.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/autosave/checkpoint_folder.h"
#include "energon/distributed/comm.h"
#include "energon/loader/savable_data_loader.h"

namespace energon {

struct ResumePoint;

struct AutoSaveOptions {
  /// Folder of checkpoints, shared by all ranks; created if it does not exist.
  std::string folder;

  /// Number of batches of each rank between two checkpoints, at least 1. A save writes a small
  /// file.
  std::int64_t every_batches = 1000;

  /// Where to start if `folder` has no finished checkpoint: another folder of checkpoints, a single
  /// checkpoint, or a state file of this rank or of its job. Steps then count from 0. Empty means
  /// the start of the data.
  std::string load_from = {};

  /// Number of complete checkpoints to keep, at least 1; older ones are removed. Unset means all.
  /// One more is kept while ranks are still writing the newest.
  std::optional<std::int64_t> keep = std::nullopt;

  /// Start at the checkpoint of this step, for a model that was rolled back to it. Later
  /// checkpoints are marked as not counting, and written again when the run reaches them. 0 is the
  /// same as start_over. Unset means the newest.
  std::optional<std::int64_t> at_step = std::nullopt;

  /// Start over at `load_from` or at the start of the data, even if the folder has checkpoints.
  /// These are marked as not counting, and overwritten when the run reaches them. Never done
  /// automatically.
  bool start_over = false;

  /// Optional communication between the ranks, to compare configuration and data and to start where
  /// rank 0 chooses. Used only by the constructor, which all ranks must then call. Borrowed. If
  /// null, ranks that start at step 0 compare configuration and data through the folder.
  Comm* comm = nullptr;
};

/// Throws Error (kInvalidArgument), naming option, value and range.
void validate(const AutoSaveOptions& options);

/// A checkpoint that no run can continue from, although the files of all ranks exist.
struct UncountedCheckpoint {
  std::int64_t step = 0;
  std::string path;
  std::string reason;  ///< may have several lines
};

/// Saves the position of a source (a loader, an adapter, or a user-defined source) from which the
/// caller takes the batches. If one rank reads for all (DispatchAdapter), only that rank writes;
/// the others count. For one thread at a time.
class AutoSaver {
 public:
  /// Continues from the newest complete checkpoint of the folder. Continues from `load_from`
  /// instead if the folder has no checkpoint; if it has only checkpoints whose saving was cut off
  /// before the files of all ranks were there, so that none ever counted; or if none is complete
  /// and this rank starts here for the first time after other ranks did. Opens only the rank's own
  /// file and the mark of the checkpoint, unless the job was saved on another layout: then it is
  /// rescaled to the layout of `source`, which must outlive this. Throws Error: of validate(),
  /// rescale(), restore_state_rank() and the Comm; kNotFound if there are finished checkpoints but
  /// none can be used (start_over starts over), the checkpoint of at_step is not complete, or there
  /// is nothing complete at `load_from`; kNotFound, kCorruptData or kMismatch if the checkpoint is
  /// complete but this rank's file is damaged (with a Comm all ranks go back to an older
  /// checkpoint); kMismatch if the ranks do not agree on configuration and data; kMismatch with the
  /// options to set if the job has logical shards that `source` does not have: on another layout, a
  /// job with the default number of logical shards keeps that number and Energon's division.
  /// kInvalidArgument if another rank reads for this one and there is no Comm. Requires without a
  /// Comm: no rank of an earlier start is still running; otherwise at most one checkpoint may fail
  /// to become complete.
  AutoSaver(BatchSource& source, AutoSaveOptions options);
  AutoSaver(const AutoSaver&) = delete;
  AutoSaver& operator=(const AutoSaver&) = delete;

  /// Counts one batch of the source as taken and saves if a checkpoint is due. Throws as
  /// save_if_due(), and Error (kResourceExhausted) after kMostSteps batches.
  void count_batch();

  /// Saves if the checkpoint of this step is due and not yet written. Only needed after an Error,
  /// to try again. Writes the rank's own file and, on the last rank to save, the mark. Throws
  /// Error: kIo; kMismatch if another rank that started at step 0 has other settings; of
  /// save_state_rank().
  void save_if_due();

  /// Saves at this step, due or not, unless it is already saved. Use it before the process ends.
  /// The checkpoint is usable only if all ranks save at the same step. Throws as save_if_due().
  void save_now();

  /// Number of batches of this rank since the folder's step 0, over all restarts.
  std::int64_t step() const { return step_; }
  /// The checkpoint or file that the loader was restored from; nullopt if it started at the start
  /// of the data.
  const std::optional<std::string>& restored_from() const { return restored_from_; }
  /// Checkpoints that the constructor skipped because they are not complete or were marked as not
  /// counting: path and reason. Worth a warning. With a Comm, only rank 0 has them.
  const std::vector<std::string>& ignored() const { return ignored_; }
  /// The newest checkpoint that this rank completed but that does not count: the ranks began at
  /// different steps or drifted apart, or a later start had declared it unfinished. Worth a
  /// warning. Only the rank that wrote the last file knows.
  const std::optional<UncountedCheckpoint>& last_uncounted() const { return last_uncounted_; }

 private:
  void make_folder() const;
  bool starts_over() const;
  std::optional<ResumePoint> choose();
  void set_aside_rest() const;
  std::optional<ResumePoint> choose_fresh();
  void begin_alone();
  SavableDataLoaderState part_of_rank(const ResumePoint& start, const WorkerConfig& layout) const;
  void begin_together(Comm& comm);
  struct Beginning;
  Beginning choose_together(Comm& comm, const WorkerConfig& layout);
  std::string tell_choice(Comm& comm, std::optional<ResumePoint>& refused, const std::string& why);
  void take(const ResumePoint& start, const std::optional<SavableDataLoaderState>& state);
  void note_stale_files();
  void finish_checkpoint(const SavableDataLoaderState& state);

  const AutoSaveOptions options_;
  BatchSource& source_;
  std::int64_t step_ = 0;
  std::int64_t saved_step_ = 0;
  std::optional<std::string> restored_from_;
  std::vector<std::string> ignored_;
  std::optional<UncountedCheckpoint> last_uncounted_;
  bool is_agreement_due_ = false;  // compare again through the folder at the first save
  // Checkpoints left by an earlier start, by step: the ids of marks that do not count, and the rank
  // files that existed then.
  std::map<std::int64_t, std::string> void_ids_;
  std::map<std::int64_t, RankFiles> stale_files_;
};

/// A source with its saver. For one thread at a time.
class AutoSavingLoader {
 public:
  /// Makes a SavableDataLoader. Throws what the constructors of both throw.
  AutoSavingLoader(PipelineFactory make_pipeline, const LoaderOptions& options,
                   AutoSaveOptions auto_save);
  /// Shares ownership of `source`, which may be an adapter; nothing else may drive it.
  AutoSavingLoader(std::shared_ptr<BatchSource> source, AutoSaveOptions auto_save);

  /// Same as next() of the source, but writes a due checkpoint before returning its last batch.
  /// Also throws what AutoSaver::save_if_due() throws; the next call tries again and no batch is
  /// lost.
  std::optional<Sample> next();

  const AutoSaver& saver() const { return saver_; }
  /// Access to the source's other functions. Do not call its next(): that bypasses the saver.
  BatchSource& source() { return *source_; }

 private:
  const std::shared_ptr<BatchSource> source_;
  AutoSaver saver_;
  std::optional<Sample> pending_;  // taken and counted, but not returned: the save failed
};

}  // namespace energon
