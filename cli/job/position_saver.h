// Begins a dump at a saved position, and saves its position: in a file, and as checkpoints.
//
// Output is flushed before a save, because a saved position says that its batches were delivered.

#pragma once

#include <cstdint>
#include <optional>

#include "cli/job/position_flags.h"
#include "energon/autosave/auto_saver.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/order/worker_config.h"

namespace energon::cli {

class PositionSaver {
 public:
  /// Restores the loader of the rank with this configuration if the flags, or the folder of
  /// checkpoints, have a position. All arguments must outlive the saver. Throws Error.
  PositionSaver(SavableDataLoader& loader, const WorkerConfig& config, const PositionFlags& flags);

  bool is_restored() const { return is_restored_; }
  /// Batches delivered in this run.
  std::int64_t delivered() const { return delivered_; }

  /// Writes the state if --save-after batches were delivered. Called before the first batch.
  void save_if_due();
  /// Counts a batch that was delivered, and saves what is due after it.
  void count_batch();

  /// Saves at the end of the dump, also if a signal ended it.
  void save_at_end();
  /// Saves after the error that ended the dump. Failures are only warnings, because that error is
  /// reported.
  void save_after_error();
  /// Warns that the closed output prevented a save.
  void warn_of_unread_output() const;

 private:
  void count_for_checkpoint();
  void warn_of_uncounted() const;
  void save();
  void save_checkpoint();

  SavableDataLoader& loader_;
  const WorkerConfig& config_;
  const PositionFlags& flags_;
  std::optional<AutoSaver> checkpoints_;

  std::int64_t delivered_ = 0;
  bool is_restored_ = false;
  bool is_saved_ = false;  // to the file
};

}  // namespace energon::cli
