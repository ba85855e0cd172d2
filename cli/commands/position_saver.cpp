#include "cli/commands/position_saver.h"

#include <fmt/format.h>

#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "io/error.h"

namespace energon::cli {

// --- Options ---

namespace {

void add_state_flags(CLI::App& command, PositionFlags& flags) {
  command
      .add_option("--save-after", flags.save_after,
                  "Save the loader's state after N batches of this run, and continue")
      ->check(at_least(0));
  command.add_option("--save-to", flags.save_to,
                     "File for the state. Without --save-after, or if the run ends before it, the "
                     "state is saved when the run ends, also by SIGINT, SIGTERM or an error");
  command.add_option("--restore-from", flags.restore_from,
                     "Resume from a saved state of this rank or of its job; use the options that "
                     "it was saved (or rescaled) with");
}

void add_checkpoint_flags(CLI::App& command, PositionFlags& flags) {
  command.add_option("--auto-save", flags.auto_save,
                     "Folder of checkpoints, shared by all ranks: resume from the newest complete "
                     "one, and write one every --every batches");
  command.add_option("--every", flags.every, "Batches of this rank between checkpoints")
      ->check(at_least(1));
  command.add_option("--load-from", flags.load_from,
                     "Start from this folder of checkpoints, or saved state, if the --auto-save "
                     "folder has no checkpoint");
  command
      .add_option("--at-step", flags.at_step,
                  "Resume from the checkpoint of this step, the same on all ranks, and set later "
                  "ones aside (0 = --start-over)")
      ->check(at_least(0));
  command.add_flag("--start-over", flags.start_over,
                   "Start over even if the --auto-save folder has checkpoints, and set them aside");
  command.add_option("--keep", flags.keep, "Number of complete checkpoints to keep [default: all]")
      ->check(at_least(1));
}

void add_rewind_flags(CLI::App& command, PositionFlags& flags) {
  command
      .add_option("--rewind-after", flags.rewind_after,
                  "Rewind after N batches of this run, and continue from there")
      ->check(at_least(0));
  command
      .add_option("--rewind-to", flags.rewind_to,
                  "With --rewind-after: index of the batch to rewind to, at most "
                  "--checkpoint-history batches earlier")
      ->check(at_least(0));
}

}  // namespace

void add_position_flags(CLI::App& command, PositionFlags& flags) {
  add_state_flags(command, flags);
  add_checkpoint_flags(command, flags);
  add_rewind_flags(command, flags);
}

void check_position_flags(const PositionFlags& flags) {
  if (flags.auto_save.empty() != !flags.every) {
    throw UsageError{"--auto-save and --every belong together: give both or neither"};
  }
  if (flags.auto_save.empty() &&
      (!flags.load_from.empty() || flags.keep || flags.at_step || flags.start_over)) {
    throw UsageError{
        "--load-from, --keep, --at-step and --start-over need --auto-save; without it, use "
        "--restore-from"};
  }
  if (flags.at_step && flags.start_over) {
    throw UsageError{"--at-step and --start-over exclude each other: give one"};
  }
  if (!flags.auto_save.empty() && !flags.restore_from.empty()) {
    throw UsageError{
        "--auto-save resumes from the newest checkpoint of its folder: instead of --restore-from, "
        "give --load-from, which is used if there is none"};
  }
  if (flags.rewind_after.has_value() != flags.rewind_to.has_value()) {
    throw UsageError{"--rewind-after and --rewind-to belong together: give both or neither"};
  }
  if (flags.rewind_to && flags.restore_from.empty() && *flags.rewind_to > *flags.rewind_after) {
    throw UsageError{
        fmt::format("--rewind-to {} is after --rewind-after {}: a run can only go back",
                    *flags.rewind_to, *flags.rewind_after)};
  }
  if (flags.rewind_after && !flags.auto_save.empty()) {
    throw UsageError{
        "--rewind-after cannot be used with --auto-save, whose checkpoints count the steps of a "
        "run that never goes back"};
  }
  if (flags.save_after && flags.save_to.empty()) {
    throw UsageError{"--save-after needs --save-to, the file for the state"};
  }
}

// --- PositionSaver ---

PositionSaver::PositionSaver(SavableDataLoader& loader, const WorkerConfig& config,
                             const PositionFlags& flags)
    : loader_(loader), config_(config), flags_(flags) {
  if (!flags_.restore_from.empty()) {
    const SavedState saved = read_saved_state(flags_.restore_from);
    loader_.restore_state_rank(state_of_rank(saved, config_.rank));
    is_restored_ = true;
  }
  if (!flags_.auto_save.empty()) {
    checkpoints_.emplace(loader_, AutoSaveOptions{.folder = flags_.auto_save,
                                                  .every_batches = *flags_.every,
                                                  .load_from = flags_.load_from,
                                                  .keep = flags_.keep,
                                                  .at_step = flags_.at_step,
                                                  .start_over = flags_.start_over});
    for (const std::string& checkpoint : checkpoints_->ignored()) {
      print_warning("ignored an unusable checkpoint: " + checkpoint);
    }
    is_restored_ = checkpoints_->restored_from().has_value();
  }
}

void PositionSaver::save_if_due() {
  if (flags_.save_after == delivered_ && !is_saved_) {
    save();
  }
}

void PositionSaver::count_batch() {
  ++delivered_;
  save_if_due();
  count_for_checkpoint();
}

void PositionSaver::count_for_checkpoint() {
  if (checkpoints_) {
    if ((checkpoints_->step() + 1) % *flags_.every == 0) {
      output().flush();
    }
    checkpoints_->count_batch();
    warn_of_uncounted();
  }
}

// Warns once per checkpoint: only a save of this step can have found it.
void PositionSaver::warn_of_uncounted() const {
  const auto& checkpoint = checkpoints_->last_uncounted();
  if (checkpoint && checkpoint->step == checkpoints_->step()) {
    print_warning(
        fmt::format("the checkpoint of step {} is unusable, no run can resume from it: {}: {}",
                    checkpoint->step, checkpoint->path, checkpoint->reason));
  }
}

void PositionSaver::save() {
  output().flush();
  write_loader_state(flags_.save_to, loader_.save_state_rank());
  is_saved_ = true;
}

void PositionSaver::save_at_end() {
  const bool is_interrupted = interrupt_signal() != 0;
  if (!flags_.save_to.empty() && !is_saved_) {
    save();
    if (is_interrupted || flags_.save_after) {
      print_warning(fmt::format("the {} after {} batches{}; {} was written {}",
                                is_interrupted ? "run was interrupted" : "stream ended", delivered_,
                                flags_.save_after
                                    ? fmt::format(", before --save-after {}", *flags_.save_after)
                                    : std::string(),
                                flags_.save_to, is_interrupted ? "at that point" : "at its end"));
    }
  }
  if (is_interrupted) {
    save_checkpoint();  // last, because it may fail where writing the file does not
  }
}

void PositionSaver::save_after_error() {
  if (flags_.save_to.empty() && !checkpoints_) {
    return;
  }
  try {
    output().flush();
    if (output().is_broken()) {
      print_warning("the state was not written, because the output was not");
      return;
    }
    if (!flags_.save_to.empty() && !is_saved_) {
      save();
      print_warning(fmt::format("the run failed after {} batches; {} was written at that point",
                                delivered_, flags_.save_to));
    }
    save_checkpoint();
  } catch (const ClosedOutput&) {
    warn_of_unread_output();
  } catch (const Error& error) {
    print_warning(fmt::format("the state was not written: {}", error.what()));
  }
}

void PositionSaver::warn_of_unread_output() const {
  if (!flags_.save_to.empty() && !is_saved_) {
    print_warning("the state was not written, because the output was not read to its end");
  }
}

// Saves a checkpoint that is not due, but only if it is complete without other ranks.
void PositionSaver::save_checkpoint() {
  if (checkpoints_ && config_.world_size == 1) {
    output().flush();
    checkpoints_->save_now();
  }
}

}  // namespace energon::cli
