#include "cli/job/position_flags.h"

#include <fmt/format.h>

#include "cli/job/at_least.h"
#include "cli/show/outcome.h"

namespace energon::cli {
namespace {

void add_state_flags(CLI::App& command, PositionFlags& flags) {
  command
      .add_option(
          "--save-after", flags.save_after,
          "Write the loader's state once so many batches of this run were delivered, and go on")
      ->check(at_least(0));
  command.add_option("--save-to", flags.save_to,
                     "File for the state: of --save-after, and without it (or before it is "
                     "reached) of what was delivered when the dump ends: at the end, by SIGINT or "
                     "SIGTERM, or with an error");
  command.add_option("--restore-from", flags.restore_from,
                     "Start at a saved state of this rank or of its job; give the flags that it "
                     "was saved (or rescaled) for");
}

void add_checkpoint_flags(CLI::App& command, PositionFlags& flags) {
  command.add_option("--auto-save", flags.auto_save,
                     "Folder of checkpoints, shared by all ranks: begin at the newest complete "
                     "one, and write one --every so many batches");
  command.add_option("--every", flags.every, "Batches of this rank between two checkpoints")
      ->check(at_least(1));
  command.add_option("--load-from", flags.load_from,
                     "Where to begin while that folder has none: another such folder, or a saved "
                     "state");
  command
      .add_option("--at-step", flags.at_step,
                  "Begin at the checkpoint of this step, on all ranks alike: later ones are set "
                  "aside; 0: as --start-over")
      ->check(at_least(0));
  command.add_flag("--start-over", flags.start_over,
                   "Begin anew though that folder has checkpoints: they are set aside");
  command.add_option("--keep", flags.keep, "Complete checkpoints that stay; default: all")
      ->check(at_least(1));
}

void add_rewind_flags(CLI::App& command, PositionFlags& flags) {
  command
      .add_option("--rewind-after", flags.rewind_after,
                  "Go back once this many batches of this run were delivered, and go on from there")
      ->check(at_least(0));
  command
      .add_option("--rewind-to", flags.rewind_to,
                  "With --rewind-after: index of the batch to go back to, at most "
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
        "--load-from, --keep, --at-step and --start-over are for --auto-save; --restore-from is "
        "without it"};
  }
  if (flags.at_step && flags.start_over) {
    throw UsageError{"--at-step and --start-over both say where to begin: give one"};
  }
  if (!flags.auto_save.empty() && !flags.restore_from.empty()) {
    throw UsageError{
        "--auto-save begins at the newest checkpoint of its folder: give --load-from, which it "
        "takes where there is none, instead of --restore-from"};
  }
  if (flags.rewind_after.has_value() != flags.rewind_to.has_value()) {
    throw UsageError{"--rewind-after and --rewind-to belong together: give both or neither"};
  }
  if (flags.rewind_to && flags.restore_from.empty() && *flags.rewind_to > *flags.rewind_after) {
    throw UsageError{
        fmt::format("--rewind-to {} is after --rewind-after {}: a dump can only go back",
                    *flags.rewind_to, *flags.rewind_after)};
  }
  if (flags.rewind_after && !flags.auto_save.empty()) {
    throw UsageError{
        "--rewind-after cannot be used with --auto-save, whose checkpoints count the steps of a "
        "run that never goes back"};
  }
  if (flags.save_after && flags.save_to.empty()) {
    throw UsageError{"--save-after needs --save-to, the file that the state is written to"};
  }
}

}  // namespace energon::cli
