#include "cli/job/position_saver.h"

#include <string>

#include <fmt/format.h>

#include "cli/job/interrupt.h"
#include "cli/show/output.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "io/error.h"

namespace energon::cli {

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
      print_warning("passed over, this checkpoint does not count: " + checkpoint);
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

// Once per checkpoint: only a save of this step can have found it.
void PositionSaver::warn_of_uncounted() const {
  const auto& checkpoint = checkpoints_->last_uncounted();
  if (checkpoint && checkpoint->step == checkpoints_->step()) {
    print_warning(
        fmt::format("the checkpoint of step {} does not count, no run can go on from it: {}: {}",
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
      print_warning(fmt::format(
          "the {} after {} batches{}; {} was written {}",
          is_interrupted ? "dump was interrupted" : "stream ended", delivered_,
          flags_.save_after ? fmt::format(", before --save-after {}", *flags_.save_after)
                            : std::string(),
          flags_.save_to, is_interrupted ? "there" : "at its end"));
    }
  }
  if (is_interrupted) {
    save_checkpoint();  // last: writing to its folder may fail where writing the file does not
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
      print_warning(fmt::format("the dump failed after {} batches; {} was written there",
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

// A checkpoint that is not due; only if it is complete without other ranks.
void PositionSaver::save_checkpoint() {
  if (checkpoints_ && config_.world_size == 1) {
    output().flush();
    checkpoints_->save_now();
  }
}

}  // namespace energon::cli
