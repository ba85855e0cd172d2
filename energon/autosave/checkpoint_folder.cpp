#include "energon/autosave/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "energon/autosave/checkpoint_mark.h"
#include "energon/checkpoint/state_config.h"
#include "io/error.h"
#include "io/shared_folder.h"

namespace energon {

// --- Names ---

namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::string_view kPositionPrefix = "position_";

// Skips the digits that `text` begins with; false if there are none.
bool skip_number(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(digits);
  return digits > 0;
}

bool skip(std::string_view& text, std::string_view prefix) {
  const bool is_there = text.starts_with(prefix);
  text.remove_prefix(is_there ? prefix.size() : 0);
  return is_there;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{}", kStepPrefix, step); }

std::string rank_file_name(int rank) { return fmt::format("rank_{}.state", rank); }

std::optional<std::int64_t> step_in(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) {
    return std::nullopt;
  }
  std::int64_t step = 0;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  return step > 0 && name == checkpoint_name(step) ? std::optional(step) : std::nullopt;
}

bool is_beyond_steps(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) {
    return false;
  }
  name.remove_prefix(kStepPrefix.size());
  const std::string most = std::to_string(kMostSteps);
  return !name.empty() && name.front() != '0' &&
         name.find_first_not_of("0123456789") == std::string_view::npos &&
         (name.size() > most.size() || (name.size() == most.size() && name > most));
}

std::string position_file_name(std::string_view digits) {
  return fmt::format("{}{}", kPositionPrefix, digits);
}

bool is_rank_file(std::string_view name) {
  return skip(name, "rank_") && skip_number(name) && name == ".state";
}

bool is_position_file(std::string_view name) {
  return skip(name, kPositionPrefix) && name.size() == 16 &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_checkpoint_file(std::string_view name) {
  const std::string_view target = target_of_temporary(name);
  name = target.empty() ? name : target;
  return name == kMarkName || is_rank_file(name) || is_position_file(name);
}

// --- The folder ---

namespace {

Error filesystem_error(std::string_view operation, const std::error_code& code,
                       const std::string& path) {
  return io_error(operation, code.value(), {.path = path});
}

// The paths in `folder`, or none if it does not exist or is a file.
std::vector<std::filesystem::path> entries_of(const std::string& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    entries.push_back(entry->path());
  }
  if (code && code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory) {
    throw filesystem_error("cannot list the folder of checkpoints", code, folder);
  }
  return entries;
}

bool means_incomplete(ErrorCode code) {
  return code == ErrorCode::kNotFound || code == ErrorCode::kCorruptData ||
         code == ErrorCode::kMismatch;
}

// The job in a checkpoint, or a mark with the reason why the checkpoint does not count.
using JobOrMark = std::variant<SavableJobState, CheckpointMark>;

JobOrMark try_read(const std::string& path) {
  try {
    return read_checkpoint(path);
  } catch (const Error& error) {
    if (!means_incomplete(error.code())) {
      throw;
    }
    return void_mark(error.what());
  }
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code is_unknown;
  return std::filesystem::is_directory(path, is_unknown);
}

// Removes our files, complete or temporary, and the folder unless it has other files.
void remove_checkpoint(const std::string& path) {
  if (!is_folder(path)) {
    return;
  }
  for (const std::filesystem::path& entry : entries_of(path)) {
    if (!is_checkpoint_file(entry.filename().string()) || is_folder(entry)) {
      continue;
    }
    std::error_code code;
    std::filesystem::remove(entry, code);
    if (code) {
      throw filesystem_error("cannot remove an old checkpoint", code, entry.string());
    }
  }
  std::error_code is_in_use;
  std::filesystem::remove(path, is_in_use);
}

// Throws Error (kCorruptData) if `path` or `rank_file` has the wrong file type. Reading it would
// fail like a refusal by the system, which does not invalidate the checkpoint.
void check_kinds(const std::string& path, const std::string& rank_file) {
  std::error_code is_unknown;
  if (std::filesystem::is_regular_file(path, is_unknown)) {
    throw Error(ErrorCode::kCorruptData, "expected a folder for a checkpoint, found a file",
                {.path = path});
  }
  if (is_folder(rank_file)) {
    throw Error(ErrorCode::kCorruptData, "expected a file for the state of a rank, found a folder",
                {.path = rank_file});
  }
}

// The first rank of `world_size` without a file; nullopt if all have one.
std::optional<int> missing_rank(const std::set<std::string>& files, int world_size) {
  for (int rank = 0; rank < world_size; ++rank) {
    if (!files.contains(rank_file_name(rank))) {
      return rank;
    }
  }
  return std::nullopt;
}

CheckpointMark unfinished_mark(std::string reason) {
  CheckpointMark mark = void_mark(std::move(reason));
  mark.unfinished = true;
  return mark;
}

// Like try_read(), for a checkpoint without a mark. Looks for missing files before it reads the
// files of all ranks.
JobOrMark try_read_unmarked(const std::string& path) {
  const std::string first = path + "/" + rank_file_name(0);
  int world_size = 1;
  try {
    check_kinds(path, first);
    world_size = layout_of(read_loader_state(first).config).world_size;
  } catch (const Error& error) {
    if (!means_incomplete(error.code())) {
      throw;
    }
    return error.code() == ErrorCode::kNotFound ? unfinished_mark(error.what())
                                                : void_mark(error.what());
  }
  if (const auto rank = missing_rank(checkpoint_files(path).ranks, world_size)) {
    return unfinished_mark(fmt::format("the file of rank {} of {} is missing [path: {}/{}]", *rank,
                                       world_size, path, rank_file_name(*rank)));
  }
  return try_read(path);
}

void note_position(const std::string& path, const SavableDataLoaderState& state) {
  const std::string name =
      fmt::format("{}/{}", path, position_file_name(summary_of(complete_mark(state))));
  std::error_code is_unknown;
  if (!std::filesystem::exists(name, is_unknown)) {
    NewFile(name).publish_once();
  }
}

std::string as_ignored(const std::string& path, const std::string& reason) {
  return fmt::format("{}: {}", path, reason);
}

}  // namespace

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const std::filesystem::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    if (is_beyond_steps(name)) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("no run takes more than {} steps: rename or remove this entry", kMostSteps),
          {.path = entry.string()});
    }
    if (const auto step = step_in(name)) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

SavableJobState read_checkpoint(const std::string& path) {
  std::vector<SavableDataLoaderState> ranks;
  int world_size = 1;
  for (int rank = 0; rank < world_size; ++rank) {
    const std::string file = path + "/" + rank_file_name(rank);
    check_kinds(path, file);
    ranks.push_back(read_loader_state(file));
    world_size = layout_of(ranks.front().config).world_size;
  }
  try {
    return merge_states(std::move(ranks));
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

CheckpointSearch find_newest_checkpoint(const std::string& folder) {
  CheckpointSearch search;
  for (const std::int64_t step : checkpoint_steps(folder)) {
    const std::string path = folder + "/" + checkpoint_name(step);
    const std::optional<CheckpointMark> mark = read_mark(path);
    if (mark && !mark->complete) {
      search.ignored.push_back(as_ignored(path, mark->reason));
      continue;
    }
    auto found = mark ? try_read(path) : try_read_unmarked(path);
    if (auto* job = std::get_if<SavableJobState>(&found)) {
      search.newest = {step, path, std::move(*job)};
      break;
    }
    search.ignored.push_back(as_ignored(path, std::get<CheckpointMark>(found).reason));
  }
  return search;
}

CheckpointMark judge_checkpoint(const std::string& path) {
  if (auto mark = read_mark(path)) {
    return *mark;
  }
  return judge_files(path);
}

CheckpointMark judge_files(const std::string& path) {
  auto found = try_read_unmarked(path);
  const auto* job = std::get_if<SavableJobState>(&found);
  return job != nullptr ? complete_mark(job->ranks.front())
                        : std::get<CheckpointMark>(std::move(found));
}

CheckpointMark decide_checkpoint(const std::string& path) {
  if (auto decided = read_mark(path)) {
    return *decided;
  }
  const CheckpointMark mark = judge_checkpoint(path);
  return is_folder(path) ? publish_mark(path, mark) : mark;
}

void write_checkpoint(const std::string& folder, std::int64_t step,
                      const SavableDataLoaderState& state) {
  const std::string path = folder + "/" + checkpoint_name(step);
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) {
    throw filesystem_error("cannot make the folder of a checkpoint", code, path);
  }
  note_position(path, state);
  write_loader_state(path + "/" + rank_file_name(layout_of(state.config).rank), state);
}

CheckpointFiles checkpoint_files(const std::string& path) {
  CheckpointFiles files;
  for (const std::filesystem::path& entry : entries_of(path)) {
    const std::string name = entry.filename().string();
    if (is_rank_file(name)) {
      files.ranks.insert(name);
    } else if (is_position_file(name)) {
      files.positions.insert(name);
    }
  }
  return files;
}

RankFiles rank_files(const std::string& path) {
  RankFiles files;
  for (const std::string& name : checkpoint_files(path).ranks) {
    if (const auto identity = identity_of(fmt::format("{}/{}", path, name))) {
      files.emplace(name, *identity);
    }
  }
  return files;
}

bool has_all_files(const std::string& path, const CheckpointFiles& files, const RankFiles& stale,
                   int world_size) {
  if (missing_rank(files.ranks, world_size)) {
    return false;
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const std::string name = rank_file_name(rank);
    const auto before = stale.find(name);
    if (before != stale.end() && identity_of(fmt::format("{}/{}", path, name)) == before->second) {
      return false;
    }
  }
  return true;
}

void remove_old_checkpoints(const std::string& folder, std::int64_t keep) {
  std::int64_t complete = 0;
  for (const std::int64_t step : checkpoint_steps(folder)) {
    const std::string path = folder + "/" + checkpoint_name(step);
    if (complete == keep) {
      remove_checkpoint(path);
      continue;
    }
    std::optional<CheckpointMark> mark = read_mark(path);
    if (!mark) {
      // Either not judged yet or still being written; only the former is decided here.
      mark = judge_checkpoint(path);
      if (mark->complete) {
        mark = publish_mark(path, *mark);
      }
    }
    complete += mark->complete ? 1 : 0;
  }
}

}  // namespace energon
