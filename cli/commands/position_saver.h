// Saved positions of a run: where it starts, and where its position is saved.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "energon/autosave/auto_saver.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/order/worker_config.h"

namespace energon::cli {

/// The options of `energon run` for saved positions. Values as on the command line.
struct PositionFlags {
  std::optional<std::int64_t> save_after;
  std::string save_to;
  std::string restore_from;
  std::string auto_save;
  std::optional<std::int64_t> every;
  std::string load_from;
  std::optional<std::int64_t> at_step;
  bool start_over = false;
  std::optional<std::int64_t> keep;
  std::optional<std::int64_t> rewind_after;
  std::optional<std::int64_t> rewind_to;
};

/// Declares the options. `flags` must live as long as `command`.
void add_position_flags(CLI::App& command, PositionFlags& flags);

/// Throws UsageError if options contradict each other.
void check_position_flags(const PositionFlags& flags);

/// Starts a run at a saved position, and saves its position in a file and as checkpoints.
///
/// Output is flushed before a save, because a saved position implies that its batches were
/// delivered.
class PositionSaver {
 public:
  /// Restores the loader of the rank with this configuration if the flags, or the folder of
  /// checkpoints, contain a position. All arguments must outlive the saver. Throws Error.
  PositionSaver(SavableDataLoader& loader, const WorkerConfig& config, const PositionFlags& flags);

  bool is_restored() const { return is_restored_; }
  /// Batches delivered in this run.
  std::int64_t delivered() const { return delivered_; }

  /// Writes the state if --save-after batches were delivered. Called before the first batch.
  void save_if_due();
  /// Counts a delivered batch, and saves the state or checkpoint that is due.
  void count_batch();

  /// Saves at the end of the run, also if a signal ended it.
  void save_at_end();
  /// Saves after the error that ended the run. Failures are only warnings, because that error is
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
