#include "io/prepare/staging_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/shared_folder.h"

namespace energon {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStagingPrefix = ".nv-meta.prepare";

struct stat status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw io_error("cannot stat", errno, {.path = path});
  }
  return status;
}

void make_folder(const std::string& path, unsigned mode) {
  if (::mkdir(path.c_str(), 0700) != 0) {
    throw io_error("cannot create folder", errno, {.path = path});
  }
  ::chmod(path.c_str(), mode);
}

std::chrono::nanoseconds changed_at(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? std::chrono::seconds(status.st_mtim.tv_sec) +
                                                   std::chrono::nanoseconds(status.st_mtim.tv_nsec)
                                             : std::chrono::nanoseconds(0);
}

// When the folder or anything in it was last changed.
std::chrono::nanoseconds last_change(const fs::path& folder) {
  std::chrono::nanoseconds last = changed_at(folder);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    last = std::max(last, changed_at(entry->path()));
  }
  return last;
}

void remove_abandoned_stagings(const std::string& dataset_path) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(dataset_path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().native().starts_with(kStagingPrefix) &&
        entry->symlink_status(error).type() == fs::file_type::directory) {
      found.push_back(entry->path());
    }
  }
  const auto now = found.empty() ? std::nullopt : file_system_time(dataset_path);
  for (const fs::path& path : found) {
    if (now && *now - last_change(path) >= kAbandonedAfter) {
      // Renamed first: if its prepare is still running, it must not commit a half-empty folder.
      const fs::path gone =
          fmt::format("{}/{}.gone-{}", dataset_path, kStagingPrefix, random_digits());
      fs::rename(path, gone, error);
      fs::remove_all(error ? fs::path() : gone, error);
    }
  }
}

}  // namespace

StagingFolder::StagingFolder(std::string dataset_path, unsigned folder_mode)
    : dataset_path_(std::move(dataset_path)),
      id_(random_digits()),
      path_(fmt::format("{}/{}.{}", dataset_path_, kStagingPrefix, id_)),
      folder_mode_(folder_mode),
      // The lock is on the dataset's folder, which exists before and after the commit.
      lock_(lock_folder(dataset_path_, "folder")) {
  complete_commit(dataset_path_);
  remove_abandoned_stagings(dataset_path_);
  make_folder(path_, folder_mode_);
  make_folder(fmt::format("{}/{}", path_, id_), folder_mode_);
}

StagingFolder::~StagingFolder() {
  if (is_committed_) {
    return;
  }
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  for (const std::string& path : temporary_) {
    ::unlink(path.c_str());
  }
}

std::string StagingFolder::staged(std::string_view name) const {
  return fmt::format("{}/{}/{}", path_, id_, name);
}

std::string StagingFolder::meta_file(std::string_view name) {
  const std::string staged_name = fmt::format("meta-{}", name);
  last_steps_.push_back({.from = staged_name, .to = fmt::format(".nv-meta/{}", name)});
  return staged(staged_name);
}

void StagingFolder::write_meta_file(std::string_view name, ByteView content, unsigned mode) {
  write_file_atomically(meta_file(name), content, mode);
}

std::string StagingFolder::loose_file(std::int64_t number, std::string_view suffix) const {
  return staged(fmt::format("{}{}", number, suffix));
}

void StagingFolder::move_loose_file(std::int64_t number, std::string_view suffix,
                                    const std::string& to) {
  steps_.push_back({.from = fmt::format("{}{}", number, suffix), .to = to});
}

void StagingFolder::remove_file(const std::string& path) {
  steps_.push_back({.kind = CommitStep::Kind::kRemove, .to = path});
}

// Detects conditions that would make a commit fail halfway, before anything is published.
void StagingFolder::check_targets() const {
  std::set<std::string> folders;
  for (const CommitStep& step : steps_) {
    if (step.kind != CommitStep::Kind::kRemove) {
      status_of(staged(step.from));
    }
    folders.insert(folder_of(dataset_path_ + "/" + step.to));
  }
  for (const std::string& folder : folders) {
    if (::access(folder.c_str(), W_OK | X_OK) != 0 && errno != ENOENT) {
      throw io_error("cannot write to the folder", errno, {.path = folder});
    }
  }
}

// For a target on another file system, which a symbolic link may lead to.
void StagingFolder::stage_beside(CommitStep& step) {
  const std::string from = staged(step.from);
  const std::string beside = temporary_name(step.to);
  const std::string path = dataset_path_ + "/" + beside;
  constexpr std::uint64_t kNoLimit = UINT64_MAX;
  temporary_.push_back(path);
  write_file_atomically(path, as_bytes(read_file(from, kNoLimit)), status_of(from).st_mode & 0777U);
  give_time_of(path, FileSource(from).identity());
  step = {.kind = CommitStep::Kind::kMoveTemporary, .from = beside, .to = step.to};
}

void StagingFolder::commit() {
  constexpr std::string_view kNote = "note";
  write_file_atomically(staged(kNote), as_bytes(unfinished_note()));
  steps_.insert(steps_.begin(), {.from = std::string(kNote), .to = ".nv-meta/.info.json"});
  steps_.insert(steps_.end(), last_steps_.begin(), last_steps_.end());
  check_targets();
  const dev_t device = status_of(path_).st_dev;
  for (CommitStep& step : steps_) {
    struct stat folder {};
    if (step.kind == CommitStep::Kind::kMove &&
        ::stat(folder_of(dataset_path_ + "/" + step.to).c_str(), &folder) == 0 &&
        folder.st_dev != device) {
      stage_beside(step);
    }
  }
  write_file_atomically(staged("journal"), as_bytes(encode_journal(steps_)));
  sync_folder(path_);
  publish_commit(dataset_path_, path_);
  is_committed_ = true;  // from here on, the journal needs the staged files
  sync_folder(dataset_path_);
  complete_commit(dataset_path_);
}

UniqueFd lock_folder(const std::string& path, std::string_view what) {
  UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.valid()) {
    throw io_error("cannot open folder", errno, {.path = path});
  }
  if (try_lock(lock.get()) == Locked::kNo) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("another process is preparing this {}", what), {.path = path});
  }
  return lock;
}

}  // namespace energon
