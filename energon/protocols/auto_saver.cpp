#include "energon/protocols/auto_saver.h"

#include <filesystem>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/loader/rescale.h"
#include "energon/loader/state_config.h"
#include "energon/protocols/checkpoint_folder.h"
#include "io/error.h"

namespace energon {
namespace {

// What `path` has for a job, and where exactly.
struct External {
  std::string path;
  SavedState state;
};

External read_external(const std::string& path, std::vector<std::string>& ignored) {
  if (!std::filesystem::is_directory(path)) {
    return {path, read_saved_state(path)};
  }
  if (std::filesystem::exists(path + "/" + rank_file_name(0))) {
    return {path, read_checkpoint(path)};
  }
  CheckpointSearch search = find_newest_checkpoint(path);
  if (!search.newest) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("there is no complete checkpoint to load from{}{}",
                            search.ignored.empty() ? "" : "; ignored:\n  ",
                            fmt::join(search.ignored, "\n  ")),
                {.path = path});
  }
  ignored.insert(ignored.end(), search.ignored.begin(), search.ignored.end());
  return {search.newest->path, std::move(search.newest->job)};
}

// Throws unless the loader of `layout` has the logical shards that `job` was rescaled to.
void check_logical_shards(const SavableJobState& job, const WorkerConfig& layout) {
  const WorkerConfig needed = layout_of(job.ranks.front().config);
  if (!needed.logical_shards || (needed.logical_shards == layout.logical_shards &&
                                 needed.division == layout.effective_division())) {
    return;
  }
  const bool is_energon = needed.division == Division::kEnergon;
  const bool is_uneven = *needed.logical_shards % needed.world_size != 0;
  throw Error(
      ErrorCode::kMismatch,
      fmt::format("the job has {0} logical shards, the loader {1}; to go on on this layout set "
                  "logical_shards = {0}{2}{3} in WorkerConfig (energon dump: --logical-shards "
                  "{0}{4}{5})",
                  *needed.logical_shards, layout.logical_shard_count(),
                  is_energon ? ", division = kEnergon" : ", division = kEven",
                  is_uneven ? ", allow_uneven = true" : "", is_energon ? " --division energon" : "",
                  is_uneven ? " --uneven" : ""));
}

// The part of `job` that a loader of `layout` has.
SavableDataLoaderState part_of(const SavableJobState& job, const WorkerConfig& layout) {
  const WorkerConfig saved = layout_of(job.ranks.front().config);
  if (saved.world_size == layout.world_size && saved.num_workers == layout.num_workers &&
      saved.logical_shards == layout.logical_shards) {
    return state_of_rank(job, layout.rank);
  }
  // The loader's own options say whether an uneven division is wanted.
  const SavableJobState rescaled = rescale(job, {.world_size = layout.world_size,
                                                 .num_workers = layout.num_workers,
                                                 .uneven = Uneven::kSpread});
  check_logical_shards(rescaled, layout);
  return state_of_rank(rescaled, layout.rank);
}

}  // namespace

void validate(const AutoSaveOptions& options) {
  if (options.folder.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "folder is empty: say where checkpoints are kept");
  }
  if (options.every_batches < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("every_batches is {}, at least 1 is needed", options.every_batches));
  }
  if (options.keep && *options.keep < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("keep is {}, at least 1 is needed; absent keeps all", *options.keep));
  }
}

AutoSaver::AutoSaver(SavableDataLoader& loader, AutoSaveOptions options)
    : options_(std::move(options)), loader_(loader) {
  validate(options_);
  std::error_code code;
  std::filesystem::create_directories(options_.folder, code);
  if (code) {
    throw io_error("cannot make the folder of checkpoints", code.value(),
                   {.path = options_.folder});
  }
  restore();
}

void AutoSaver::restore() {
  CheckpointSearch search = find_newest_checkpoint(options_.folder);
  ignored_ = std::move(search.ignored);
  std::optional<External> source;
  if (search.newest) {
    step_ = saved_step_ = search.newest->step;
    source = {search.newest->path, std::move(search.newest->job)};
  } else if (!options_.load_from.empty()) {
    source = read_external(options_.load_from, ignored_);
  } else {
    return;
  }
  try {
    const WorkerConfig layout = layout_of(loader_.save_state_rank().config);
    const auto* job = std::get_if<SavableJobState>(&source->state);
    loader_.restore_state_rank(job != nullptr ? part_of(*job, layout)
                                              : state_of_rank(source->state, layout.rank));
  } catch (Error& error) {
    error.with({.path = source->path});
    throw;
  }
  restored_from_ = source->path;
}

void AutoSaver::count_batch() {
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
  const SavableDataLoaderState state = loader_.save_state_rank();
  write_checkpoint(options_.folder, step_, state);
  saved_step_ = step_;
  // Whoever completes a checkpoint removes what is now too old.
  if (options_.keep && has_all_files(options_.folder, step_, layout_of(state.config).world_size)) {
    remove_old_checkpoints(options_.folder, *options_.keep);
  }
}

AutoSavingLoader::AutoSavingLoader(PipelineFactory make_pipeline, const LoaderOptions& options,
                                   AutoSaveOptions auto_save)
    : loader_(std::move(make_pipeline), options), saver_(loader_, std::move(auto_save)) {}

std::optional<Sample> AutoSavingLoader::next() {
  if (pending_) {
    saver_.save_if_due();
  } else if ((pending_ = loader_.next())) {
    saver_.count_batch();
  }
  return std::exchange(pending_, std::nullopt);
}

}  // namespace energon
