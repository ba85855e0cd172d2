#include "energon/protocols/auto_saver.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/protocols/job_file.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {
void validate(const AutoSaveOptions& options) {
  if (options.folder.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "folder is empty: say where checkpoints are kept");
  }
  check_path(options.folder);
  if (options.every_batches < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("every_batches is {}, at least 1 is needed", options.every_batches));
  }
  if (options.keep && *options.keep < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("keep is {}, at least 1 is needed; absent keeps all", *options.keep));
  }
  if (options.at_step && (*options.at_step < 0 || *options.at_step > kMostSteps)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("at_step is {}, it must be in [0, {}]", *options.at_step, kMostSteps));
  }
  if (options.at_step && options.start_over) {
    throw Error(ErrorCode::kInvalidArgument,
                "at_step and start_over: give one, they say where to begin");
  }
}

AutoSaver::AutoSaver(BatchSource& source, AutoSaveOptions options)
    : options_(std::move(options)), source_(source) {
  if (options_.comm != nullptr) {
    begin_together(*options_.comm);
  } else if (source_.keeps_position()) {
    begin_alone();
  } else {
    throw Error(ErrorCode::kInvalidArgument,
                "another rank reads for this one and knows where the job begins: set comm");
  }
}

void AutoSaver::count_batch() {
  if (step_ >= kMostSteps) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("the run has taken {} steps, no folder can count more", step_));
  }
  ++step_;
  save_if_due();
}

void AutoSaver::save_if_due() {
  if (step_ % options_.every_batches == 0) {
    save_now();
  }
}

void AutoSaver::save_now() {
  if (step_ == saved_step_) {
    return;
  }
  if (!source_.keeps_position()) {
    saved_step_ = step_;
    return;
  }
  const SavableDataLoaderState state = source_.save_state_rank();
  if (is_agreement_due_) {
    agree_through_folder(options_.folder, common_config(state.config), false);
    is_agreement_due_ = false;
  }
  write_checkpoint(options_.folder, step_, state);
  finish_checkpoint(state);
  saved_step_ = step_;
}

// The rank that wrote the last file decides whether the checkpoint is complete, and removes
// checkpoints that are now too old.
void AutoSaver::finish_checkpoint(const SavableDataLoaderState& state) {
  const std::string path = options_.folder + "/" + checkpoint_name(step_);
  const auto stale = stale_files_.find(step_);
  const CheckpointFiles files = checkpoint_files(path);
  if (!has_all_files(path, files, stale == stale_files_.end() ? RankFiles() : stale->second,
                     layout_of(state.config).world_size)) {
    return;
  }
  const CheckpointMark own = files.positions.size() == 1 ? complete_mark(state) : judge_files(path);
  const CheckpointMark mark = publish_mark(path, own);
  if (!mark.complete && mark != own) {
    const auto known = void_ids_.find(step_);
    if (known == void_ids_.end() || known->second != mark.id) {
      last_uncounted_ = {step_, path, mark.reason};
      return;  // set aside after this start: another one is running
    }
    replace_mark(path, own);
  }
  if (!own.complete) {
    last_uncounted_ = {step_, path, own.reason};
  }
  if (own.complete && options_.keep) {
    remove_old_checkpoints(options_.folder, *options_.keep);
  }
}

AutoSavingLoader::AutoSavingLoader(PipelineFactory make_pipeline, const LoaderOptions& options,
                                   AutoSaveOptions auto_save)
    : AutoSavingLoader(std::make_shared<SavableDataLoader>(std::move(make_pipeline), options),
                       std::move(auto_save)) {}

AutoSavingLoader::AutoSavingLoader(std::shared_ptr<BatchSource> source, AutoSaveOptions auto_save)
    : source_(std::move(source)), saver_(*source_, std::move(auto_save)) {}

std::optional<Sample> AutoSavingLoader::next() {
  if (pending_) {
    saver_.save_if_due();
  } else if ((pending_ = source_->next())) {
    saver_.count_batch();
  }
  return std::exchange(pending_, std::nullopt);
}

}  // namespace energon
