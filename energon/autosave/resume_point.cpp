#include "energon/autosave/resume_point.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/rescale.h"
#include "energon/checkpoint/state_config.h"
#include "energon/distributed/rank_agreement.h"
#include "energon/state/state_json.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/shared_folder.h"

namespace energon {

// --- The checkpoint to start at ---

namespace {

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
      fmt::format("the job has {0} logical shards, the loader {1}; to continue on this layout, set "
                  "logical_shards = {0}{2}{3} in WorkerConfig (energon run: --logical-shards "
                  "{0}{4}{5})",
                  *needed.logical_shards, layout.logical_shard_count(),
                  is_energon ? ", division = kEnergon" : ", division = kEven",
                  is_uneven ? ", allow_uneven = true" : "", is_energon ? " --division energon" : "",
                  is_uneven ? " --uneven" : ""));
}

bool is_same_layout(const WorkerConfig& saved, const WorkerConfig& layout) {
  return saved.world_size == layout.world_size && saved.num_workers == layout.num_workers &&
         saved.logical_shards == layout.logical_shards;
}

// The part of `job` that a loader of `layout` has.
SavableDataLoaderState part_of_job(const SavableJobState& job, const WorkerConfig& layout) {
  if (is_same_layout(layout_of(job.ranks.front().config), layout)) {
    return state_of_rank(job, layout.rank);
  }
  // The loader's own options determine whether an uneven division is allowed.
  const SavableJobState rescaled = rescale(job, {.world_size = layout.world_size,
                                                 .num_workers = layout.num_workers,
                                                 .uneven = Uneven::kSpread});
  check_logical_shards(rescaled, layout);
  return state_of_rank(rescaled, layout.rank);
}

// The state of a whole job, whose files exist but may belong to different jobs or steps.
SavableJobState whole_job(const std::string& path) {
  try {
    return read_checkpoint(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kMismatch) {
      throw;
    }
    throw Error(ErrorCode::kCorruptData, error.message(), error.context());
  }
}

// The rank's own file, if the checkpoint has it for this layout.
std::optional<SavableDataLoaderState> own_part(const ResumePoint& start,
                                               const WorkerConfig& layout) {
  if (start.mark->world_size != layout.world_size) {
    return std::nullopt;
  }
  const std::string path = start.path + "/" + rank_file_name(layout.rank);
  SavableDataLoaderState state = read_loader_state(path);
  const WorkerConfig saved = layout_of(state.config);
  std::string difference = difference_to(*start.mark, state);
  if (difference.empty() && saved.rank != layout.rank) {
    difference = fmt::format("its file belongs to rank {}", saved.rank);
  }
  if (!difference.empty()) {
    throw Error(ErrorCode::kCorruptData, difference, {.path = path});
  }
  if (!is_same_layout(saved, layout)) {
    return std::nullopt;
  }
  return state;
}

}  // namespace

CheckpointCandidates::CheckpointCandidates(std::string folder)
    : folder_(std::move(folder)), steps_(checkpoint_steps(folder_)) {}

std::string CheckpointCandidates::path_of(std::int64_t step) const {
  return folder_ + "/" + checkpoint_name(step);
}

std::optional<ResumePoint> CheckpointCandidates::next() {
  while (next_ < steps_.size()) {
    const std::int64_t step = steps_[next_++];
    const std::string path = path_of(step);
    CheckpointMark mark = decide_checkpoint(path);
    if (mark.complete) {
      return ResumePoint{.step = step, .path = path, .mark = std::move(mark)};
    }
    ignored_.push_back(fmt::format("{}: {}", path, mark.reason));
    ignored_finished_ |= !mark.unfinished;
  }
  return std::nullopt;
}

ResumePoint CheckpointCandidates::at(std::int64_t step) {
  const std::string path = path_of(step);
  const bool is_there = std::find(steps_.begin(), steps_.end(), step) != steps_.end();
  const CheckpointMark mark =
      is_there ? decide_checkpoint(path) : void_mark("the checkpoint does not exist");
  if (!mark.complete) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("cannot start at step {}: {}; {}", step, mark.reason, describe_complete(step)),
        {.path = path});
  }
  return {.step = step, .path = path, .mark = mark};
}

void CheckpointCandidates::set_aside_after(std::int64_t step) {
  for (const std::int64_t later : steps_) {
    if (later > step) {
      set_aside({.step = later, .path = path_of(later)},
                fmt::format("the run went back to step {}", step));
    }
  }
}

void CheckpointCandidates::set_all_aside(const std::string& reason) {
  for (const std::int64_t step : steps_) {
    set_aside({.step = step, .path = path_of(step)}, reason);
  }
}

void CheckpointCandidates::set_aside(const ResumePoint& start, const std::string& reason) {
  std::error_code is_unknown;
  if (!std::filesystem::is_directory(start.path, is_unknown)) {
    return;
  }
  std::optional<CheckpointMark> mark = read_mark(start.path);
  if (!mark) {
    mark = publish_mark(start.path, void_mark(reason));
  }
  if (mark->complete) {
    replace_mark(start.path, void_mark_of(*mark, reason));
  }
}

bool CheckpointCandidates::any_complete() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [&](std::int64_t step) { return judge_checkpoint(path_of(step)).complete; });
}

std::string CheckpointCandidates::describe_complete(std::int64_t but) const {
  constexpr std::size_t kMost = 20;
  std::vector<std::int64_t> complete;
  for (const std::int64_t step : steps_) {
    if (complete.size() < kMost && step != but && judge_checkpoint(path_of(step)).complete) {
      complete.push_back(step);
    }
  }
  return complete.empty() ? "no other is complete"
                          : fmt::format("checkpoints of these steps are complete: {}",
                                        fmt::join(complete, ", "));
}

ResumePoint start_of(const std::string& load_from, std::vector<std::string>& ignored) {
  std::error_code is_unknown;
  if (!std::filesystem::is_directory(load_from, is_unknown)) {
    return {.path = load_from};
  }
  if (std::filesystem::exists(load_from + "/" + rank_file_name(0), is_unknown)) {
    const CheckpointMark mark = judge_checkpoint(load_from);
    if (!mark.complete) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("the checkpoint is not complete: {}", mark.reason),
                  {.path = load_from});
    }
    return {.path = load_from, .mark = mark};
  }
  for (const std::int64_t step : checkpoint_steps(load_from)) {
    const std::string path = load_from + "/" + checkpoint_name(step);
    CheckpointMark mark = judge_checkpoint(path);
    if (mark.complete) {
      return {.path = path, .mark = std::move(mark)};
    }
    ignored.push_back(fmt::format("{}: {}", path, mark.reason));
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("there is no complete checkpoint to load from{}{}",
                          ignored.empty() ? "" : "; ignored:\n  ", fmt::join(ignored, "\n  ")),
              {.path = load_from});
}

SavableDataLoaderState part_of(const ResumePoint& start, const WorkerConfig& layout) {
  try {
    if (!start.mark) {
      const SavedState saved = read_saved_state(start.path);
      const auto* job = std::get_if<SavableJobState>(&saved);
      return job != nullptr ? part_of_job(*job, layout) : state_of_rank(saved, layout.rank);
    }
    if (auto own = own_part(start, layout)) {
      return std::move(*own);
    }
    return part_of_job(whole_job(start.path), layout);
  } catch (Error& error) {
    error.with({.path = start.path});
    throw;
  }
}

// --- The file JOB ---

namespace {

constexpr std::int64_t kJobFileVersion = 1;
constexpr std::size_t kMostLines = 40;

std::string to_text(const Config& common) {
  nlohmann::ordered_json json;
  json["version"] = kJobFileVersion;
  json["digest"] = agreement_digest(common);
  json["config"] = common;
  return json.dump() + "\n";
}

Config read_common(const std::string& path) {
  const std::string text = read_file(path);
  try {
    nlohmann::ordered_json json;
    try {
      json = nlohmann::ordered_json::parse(text);
    } catch (const nlohmann::json::exception&) {
      throw Error(ErrorCode::kCorruptData, "not the JOB file of a folder of checkpoints");
    }
    const JsonReader reader(json, kJobFileName);
    if (const std::int64_t version = reader.member("version").integer();
        version != kJobFileVersion) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("version {}, but this program reads version {}", version, kJobFileVersion));
    }
    return Config(reader.member("config").json());
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

bool exists(const std::string& path) {
  std::error_code is_unknown;
  return std::filesystem::exists(path, is_unknown);
}

// Returns false if another rank was first.
bool publish(const std::string& path, std::string_view content) {
  NewFile file(path);
  file.append(as_bytes(content));
  return file.publish_once();
}

std::string begun_path(const std::string& folder, int rank) {
  return fmt::format("{}/{}/rank_{}", folder, kBegunFolder, rank);
}

}  // namespace

void agree_through_folder(const std::string& folder, const Config& common, bool replace) {
  const std::string path = folder + "/" + kJobFileName;
  const std::string own = to_text(common);
  if (replace) {
    write_file_atomically(path, as_bytes(own));
    return;
  }
  if (!exists(path) && publish(path, own)) {
    return;
  }
  const Config theirs = read_common(path);
  if (agreement_digest(theirs) == agreement_digest(common)) {
    return;
  }
  std::vector<std::string> lines;
  compare_configs(common, theirs, "", lines);
  if (lines.empty()) {
    return;  // a digest that only one of the two has
  }
  const std::size_t count = lines.size();
  if (count > kMostLines) {
    lines.resize(kMostLines);
    lines.push_back(fmt::format("and {} more", count - kMostLines));
  }
  throw Error(
      ErrorCode::kMismatch,
      fmt::format("a rank that started in this folder has other data or settings, so the shares of "
                  "the ranks would overlap or leave gaps. If that was an earlier start that saved "
                  "nothing, start over with start_over (--start-over) on all ranks. "
                  "Differences:\n  {}",
                  fmt::join(lines, "\n  ")),
      {.path = path});
}

void note_begin(const std::string& folder, int rank) {
  const std::string path = folder + "/" + kBegunFolder;
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) {
    throw io_error("cannot make folder", code.value(), {.path = path});
  }
  if (!exists(begun_path(folder, rank))) {
    publish(begun_path(folder, rank), "");
  }
}

bool is_late(const std::string& folder, int rank) {
  return exists(folder + "/" + kJobFileName) && !exists(begun_path(folder, rank));
}

}  // namespace energon
