#include "energon/protocols/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "energon/loader/state_config.h"
#include "io/error.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

constexpr std::string_view kStepPrefix = "step_";

Error filesystem_error(std::string_view operation, const std::error_code& code,
                       const std::string& path) {
  return io_error(operation, code.value(), {.path = path});
}

// The paths in `folder`; none if it does not exist.
std::vector<std::filesystem::path> entries_of(const std::string& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    entries.push_back(entry->path());
  }
  if (code && code != std::errc::no_such_file_or_directory) {
    throw filesystem_error("cannot list the folder of checkpoints", code, folder);
  }
  return entries;
}

// The steps that there are folders of, newest first.
std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const std::filesystem::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(kStepPrefix)) {
      continue;
    }
    std::int64_t step = 0;
    std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
    if (name == checkpoint_name(step)) {
      steps.push_back(step);
    }
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

bool means_incomplete(ErrorCode code) {
  return code == ErrorCode::kNotFound || code == ErrorCode::kCorruptData ||
         code == ErrorCode::kMismatch;
}

// The checkpoint, or what is wrong with it.
std::variant<SavableJobState, std::string> try_read(const std::string& path) {
  try {
    return read_checkpoint(path);
  } catch (const Error& error) {
    if (!means_incomplete(error.code())) {
      throw;
    }
    return std::string(error.what());
  }
}

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

// Whether `name` is that of a rank's file, rank_3.state, or of one that was not finished.
bool is_rank_file(std::string_view name) {
  const std::string_view target = target_of_temporary(name);
  name = target.empty() ? name : target;
  return skip(name, "rank_") && skip_number(name) && name == ".state";
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code is_unknown;
  return std::filesystem::is_directory(path, is_unknown);
}

// Our files, whole or temporary, and the folder unless others have files in it.
void remove_checkpoint(const std::string& path) {
  if (!is_folder(path)) {
    return;
  }
  for (const std::filesystem::path& entry : entries_of(path)) {
    if (!is_rank_file(entry.filename().string()) || is_folder(entry)) {
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

// Throws Error (kCorruptData) if there is something at `path` that can be no checkpoint, so that it
// is not taken for one that the system does not let us read.
void check_kinds(const std::string& path, const std::string& rank_file) {
  std::error_code is_unknown;
  if (std::filesystem::is_regular_file(path, is_unknown)) {
    throw Error(ErrorCode::kCorruptData, "this is a file, a checkpoint is a folder",
                {.path = path});
  }
  if (is_folder(rank_file)) {
    throw Error(ErrorCode::kCorruptData, "this is a folder, the state of a rank is a file",
                {.path = rank_file});
  }
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{}", kStepPrefix, step); }

std::string rank_file_name(int rank) { return fmt::format("rank_{}.state", rank); }

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
  for (const std::int64_t step : steps_in(folder)) {
    const std::string path = folder + "/" + checkpoint_name(step);
    auto found = try_read(path);
    if (auto* job = std::get_if<SavableJobState>(&found)) {
      search.newest = {step, path, std::move(*job)};
      break;
    }
    search.ignored.push_back(fmt::format("{}: {}", path, std::get<std::string>(found)));
  }
  return search;
}

void write_checkpoint(const std::string& folder, std::int64_t step,
                      const SavableDataLoaderState& state) {
  const std::string path = folder + "/" + checkpoint_name(step);
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) {
    throw filesystem_error("cannot make the folder of a checkpoint", code, path);
  }
  write_loader_state(path + "/" + rank_file_name(layout_of(state.config).rank), state);
}

bool has_all_files(const std::string& folder, std::int64_t step, int world_size) {
  std::set<std::string> names;
  for (const std::filesystem::path& entry : entries_of(folder + "/" + checkpoint_name(step))) {
    names.insert(entry.filename().string());
  }
  for (int rank = 0; rank < world_size; ++rank) {
    if (!names.contains(rank_file_name(rank))) {
      return false;
    }
  }
  return true;
}

void remove_old_checkpoints(const std::string& folder, std::int64_t keep) {
  std::int64_t complete = 0;
  for (const std::int64_t step : steps_in(folder)) {
    const std::string path = folder + "/" + checkpoint_name(step);
    if (complete == keep) {
      remove_checkpoint(path);
    } else if (std::holds_alternative<SavableJobState>(try_read(path))) {
      ++complete;
    }
  }
}

}  // namespace energon
