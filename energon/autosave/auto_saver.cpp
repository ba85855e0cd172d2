#include "energon/autosave/auto_saver.h"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/autosave/resume_point.h"
#include "energon/checkpoint/state_config.h"
#include "energon/distributed/comm.h"
#include "energon/distributed/rank_agreement.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {

// --- AutoSaver, AutoSavingLoader ---

void validate(const AutoSaveOptions& options) {
  if (options.folder.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "folder is empty: specify the folder of checkpoints");
  }
  check_path(options.folder);
  if (options.every_batches < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("every_batches is {}, but must be at least 1", options.every_batches));
  }
  if (options.keep && *options.keep < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("keep is {}, but must be at least 1; leave it unset to keep all",
                            *options.keep));
  }
  if (options.at_step && (*options.at_step < 0 || *options.at_step > kMostSteps)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("at_step is {}, but must be in [0, {}]", *options.at_step, kMostSteps));
  }
  if (options.at_step && options.start_over) {
    throw Error(ErrorCode::kInvalidArgument,
                "at_step and start_over are mutually exclusive: set only one");
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
                "another rank reads for this one, so this rank needs comm to learn the start");
  }
}

void AutoSaver::count_batch() {
  if (step_ >= kMostSteps) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("the run has taken {} steps, the maximum for a folder", step_));
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
  const CheckpointMark judged =
      files.positions.size() == 1 ? complete_mark(state) : judge_files(path);
  const CheckpointMark mark = publish_mark(path, judged);
  if (!mark.complete && mark != judged) {
    const auto known = void_ids_.find(step_);
    if (known == void_ids_.end() || known->second != mark.id) {
      last_uncounted_ = {step_, path, mark.reason};
      return;  // set aside after this start, so another run is active
    }
    replace_mark(path, judged);
  }
  if (!judged.complete) {
    last_uncounted_ = {step_, path, judged.reason};
  }
  if (judged.complete && options_.keep) {
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

// --- The start of an AutoSaver, alone or together with the other ranks ---

namespace {

// The start that rank 0 sends to the other ranks.
std::string encode_start(const std::optional<ResumePoint>& start) {
  if (!start) {
    return "0";
  }
  return fmt::format("{}{}:{}", start->mark ? 'c' : 'f', start->step, start->path);
}

std::optional<ResumePoint> decode_start(std::string_view text) {
  if (text == "0") {
    return std::nullopt;
  }
  const std::size_t colon = text.find(':');
  ResumePoint start{.step = std::stoll(std::string(text.substr(1, colon - 1))),
                    .path = std::string(text.substr(colon + 1))};
  if (text.front() == 'c') {
    start.mark = judge_checkpoint(start.path);
    if (!start.mark->complete) {
      throw Error(ErrorCode::kNotFound, start.mark->reason, {.path = start.path});
    }
  }
  return start;
}

// The reply about `call()` that a rank sends to the others: its result as text, if any, or its
// error.
template <class Call>
std::string reply_of(const Call& call) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
      call();
      return success({});
    } else {
      return success(call());
    }
  } catch (...) {
    return failure(to_error(std::current_exception(), ""));
  }
}

// Throws the first Error of `replies`, if there is one.
void check_replies(const std::vector<std::string>& replies) {
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    result_of(rank, replies[rank]);
  }
}

// Calls `call()` on every rank. Throws on all ranks if it throws on one.
template <class Call>
void on_all_ranks(Comm& comm, const Call& call) {
  check_replies(comm.all_gather(reply_of(call)));
}

// Whether the checkpoint itself caused the error, so that an older one may be usable.
bool is_damage(ErrorCode code) {
  return code == ErrorCode::kNotFound || code == ErrorCode::kCorruptData;
}

// Whether rank 0 chose a checkpoint in the run's own folder.
bool is_of_folder(std::string_view told) { return told.front() == 'c' && !told.starts_with("c0:"); }

}  // namespace

void AutoSaver::make_folder() const {
  validate(options_);
  std::error_code code;
  std::filesystem::create_directories(options_.folder, code);
  if (code) {
    throw io_error("cannot make the folder of checkpoints", code.value(),
                   {.path = options_.folder});
  }
}

// Where this run starts; nullopt for the start of the data.
std::optional<ResumePoint> AutoSaver::choose() {
  CheckpointCandidates candidates(options_.folder);
  if (options_.at_step.value_or(0) != 0) {
    return candidates.at(*options_.at_step);
  }
  if (!starts_over() && candidates.any()) {
    auto newest = candidates.next();
    ignored_ = candidates.ignored();
    if (newest) {
      return newest;
    }
    if (candidates.ignored_finished()) {
      throw Error(
          ErrorCode::kNotFound,
          fmt::format("there are checkpoints, but none can be continued from; to start over, set "
                      "start_over (--start-over):\n  {}",
                      fmt::join(ignored_, "\n  ")),
          {.path = options_.folder});
    }
  }
  return choose_fresh();
}

bool AutoSaver::starts_over() const { return options_.start_over || options_.at_step == 0; }

// Called once the loader is at its start. Until then, no checkpoint is invalidated.
void AutoSaver::set_aside_rest() const {
  if (starts_over()) {
    CheckpointCandidates(options_.folder).set_all_aside("the run started over");
  } else if (options_.at_step) {
    CheckpointCandidates(options_.folder).set_aside_after(*options_.at_step);
  }
}

std::optional<ResumePoint> AutoSaver::choose_fresh() {
  if (!options_.load_from.empty()) {
    return start_of(options_.load_from, ignored_);
  }
  return std::nullopt;
}

void AutoSaver::begin_alone() {
  make_folder();
  const Config config = source_.state_config();
  const WorkerConfig layout = layout_of(config);
  // If so, other ranks of this start are writing incomplete checkpoints, which are neither an error
  // nor stale.
  const bool is_fresh = !options_.at_step && !options_.start_over &&
                        is_late(options_.folder, layout.rank) &&
                        !CheckpointCandidates(options_.folder).any_complete();
  const std::optional<ResumePoint> start = is_fresh ? choose_fresh() : choose();
  if (start) {
    take(*start, part_of_rank(*start, layout));
  }
  set_aside_rest();
  if (step_ == 0) {
    agree_through_folder(options_.folder, common_config(config), starts_over());
    is_agreement_due_ = true;
  }
  note_begin(options_.folder, layout.rank);
  if (!is_fresh) {
    note_stale_files();
  }
}

// The other ranks may have started at `start`, so this rank must not choose an older one alone.
SavableDataLoaderState AutoSaver::part_of_rank(const ResumePoint& start,
                                               const WorkerConfig& layout) const {
  try {
    return part_of(start, layout);
  } catch (const Error& error) {
    if (start.step == 0 || !is_damage(error.code())) {
      throw;
    }
    throw Error(error.code(),
                fmt::format("the checkpoint of step {} is complete, but rank {} cannot continue "
                            "from it: {}; to start all ranks at an older one, set at_step "
                            "(--at-step): {}",
                            start.step, layout.rank, error.message(),
                            CheckpointCandidates(options_.folder).describe_complete(start.step)),
                error.context());
  }
}

// A start that all ranks can use, and this rank's part of it.
struct AutoSaver::Beginning {
  std::optional<ResumePoint> start;  // nullopt for the start of the data
  std::optional<SavableDataLoaderState> part;
};

void AutoSaver::begin_together(Comm& comm) {
  on_all_ranks(comm, [&] { make_folder(); });
  check_ranks_agree(source_, comm);
  WorkerConfig layout;
  on_all_ranks(comm, [&] { layout = layout_of(source_.state_config()); });
  const Beginning beginning = choose_together(comm, layout);
  on_all_ranks(comm, [&] {
    if (beginning.start) {
      take(*beginning.start, beginning.part);
    }
  });
  on_all_ranks(comm, [&] {
    if (comm.rank() == 0) {
      set_aside_rest();
    }
  });
  if (source_.keeps_position()) {
    note_stale_files();
  }
}

// In each round rank 0 proposes a start, all ranks read their parts, and exchange whether they
// succeeded. If not, an older checkpoint is next.
AutoSaver::Beginning AutoSaver::choose_together(Comm& comm, const WorkerConfig& layout) {
  std::optional<ResumePoint> refused;  // by some rank; known to rank 0 only
  std::string why;
  while (true) {
    const std::string told = tell_choice(comm, refused, why);
    const std::string_view where = result_of(std::size_t{0}, told);
    Beginning beginning;
    const std::vector<std::string> replies = comm.all_gather(reply_of([&] {
      beginning.start = decode_start(where);
      if (beginning.start && source_.keeps_position()) {
        beginning.part = part_of(*beginning.start, layout);
      }
    }));
    try {
      check_replies(replies);
      return beginning;
    } catch (const Error& error) {
      // All ranks have the same replies, so all decide the same.
      if (options_.at_step || !is_of_folder(where) || !is_damage(error.code())) {
        throw;
      }
      why = error.what();
    }
  }
}

// Rank 0 sets `refused` aside, makes another choice, and sends it to the others. Returns the
// choice; on rank 0, `refused` becomes the choice, which is refused if this is called again.
std::string AutoSaver::tell_choice(Comm& comm, std::optional<ResumePoint>& refused,
                                   const std::string& why) {
  std::string told;
  if (comm.rank() == 0) {
    std::optional<ResumePoint> choice;
    told = reply_of([&] {
      if (refused) {
        CheckpointCandidates(options_.folder).set_aside(*refused, why);
      }
      choice = choose();
      return encode_start(choice);
    });
    refused = choice;
  }
  return comm.broadcast(std::move(told), 0);
}

// Without a state the rank follows the rank that reads for it.
void AutoSaver::take(const ResumePoint& start, const std::optional<SavableDataLoaderState>& state) {
  try {
    if (state) {
      source_.restore_state_rank(*state);
    }
  } catch (Error& error) {
    error.with({.path = start.path});
    throw;
  }
  step_ = saved_step_ = start.step;
  restored_from_ = start.path;
}

// Files of an earlier start do not make a checkpoint of this one complete.
void AutoSaver::note_stale_files() {
  for (const std::int64_t step : checkpoint_steps(options_.folder)) {
    if (step <= step_) {
      break;
    }
    const std::string path = options_.folder + "/" + checkpoint_name(step);
    stale_files_[step] = rank_files(path);
    if (const auto mark = read_mark(path); mark && !mark->complete) {
      void_ids_[step] = mark->id;
    }
  }
}

}  // namespace energon
