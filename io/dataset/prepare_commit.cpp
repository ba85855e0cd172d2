#include "io/dataset/prepare_commit.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/shared_folder.h"

namespace energon {

namespace fs = std::filesystem;

// --- The journal ---

namespace {

constexpr std::string_view kJournalMagic = "energon prepare commit 1";
constexpr std::string_view kEnd = "end";
constexpr std::string_view kRemove = "remove";
constexpr std::string_view kMove = "move";
constexpr std::string_view kMoveTemporary = "move-temporary";

// Journals are executed, even those of untrusted datasets, so they may only name files that prepare
// writes.
void check_target(const std::string& path, const std::string& journal) {
  const fs::path target(path);
  const bool is_inside =
      target.is_relative() && std::none_of(target.begin(), target.end(), [](const fs::path& name) {
        return name == ".." || name == ".";
      });
  const bool is_ours = path.ends_with(".idx") || path.ends_with(".xxh3") ||
                       (path.starts_with(".nv-meta/") && path.find('/') == path.rfind('/'));
  if (!is_inside || !is_ours) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the journal of a prepare names '{}', which prepare does not write; "
                            "remove the folder .nv-meta.commit and prepare the dataset again",
                            printable(path)),
                {.path = journal});
  }
}

bool has_possible_source(const CommitStep& step) {
  switch (step.kind) {
    case CommitStep::Kind::kMove:
      return step.from.find('/') == std::string::npos && step.from != "..";
    case CommitStep::Kind::kMoveTemporary:
      return target_of_temporary(step.from) == step.to;
    case CommitStep::Kind::kRemove:
      return true;
  }
  return false;
}

}  // namespace

std::string encode_journal(const std::vector<CommitStep>& steps) {
  std::string text;
  const auto add = [&](std::string_view token) { text.append(token).push_back('\0'); };
  add(kJournalMagic);
  for (const CommitStep& step : steps) {
    switch (step.kind) {
      case CommitStep::Kind::kMove:
        add(kMove);
        add(step.from);
        break;
      case CommitStep::Kind::kMoveTemporary:
        add(kMoveTemporary);
        add(step.from);
        break;
      case CommitStep::Kind::kRemove:
        add(kRemove);
        break;
    }
    add(step.to);
  }
  add(kEnd);
  return text;
}

std::vector<CommitStep> decode_journal(std::string_view text, const std::string& journal) {
  const auto fail = [&](std::string_view problem) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("not the journal of a prepare: {}; remove the folder .nv-meta.commit "
                            "and prepare the dataset again",
                            problem),
                {.path = journal});
  };
  const auto next = [&] {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) {
      fail("it is truncated");
    }
    std::string token(text.substr(0, end));
    text.remove_prefix(end + 1);
    return token;
  };
  if (next() != kJournalMagic) {
    fail("its first line is wrong");
  }
  std::vector<CommitStep> steps;
  for (std::string verb = next(); verb != kEnd; verb = next()) {
    CommitStep& step = steps.emplace_back();
    if (verb == kRemove) {
      step.kind = CommitStep::Kind::kRemove;
    } else if (verb == kMove || verb == kMoveTemporary) {
      step.kind = verb == kMove ? CommitStep::Kind::kMove : CommitStep::Kind::kMoveTemporary;
      step.from = next();
    } else {
      fail(fmt::format("unknown step '{}'", printable(verb)));
    }
    step.to = next();
    check_target(step.to, journal);
    if (!has_possible_source(step)) {
      fail(fmt::format("it moves the file '{}'", printable(step.from)));
    }
  }
  return steps;
}

// --- Committing ---

namespace {

// Another process did the step, or the whole commit: nothing is left to do.
bool is_done_by_others(int error) { return error == ENOENT || error == ENOTDIR; }

bool is_denied(int error) { return error == EACCES || error == EPERM || error == EROFS; }

// This process lacks permission to carry out the commit.
class Denied : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void fail_step(const std::string& path, int error) {
  const Error failed = io_error("cannot move a prepared file into place", error, {.path = path});
  if (is_denied(error)) {
    throw Denied(failed.code(), failed.message(), failed.context());
  }
  throw failed;
}

// rename() that also works if a file system is mounted below the dataset's folder.
void move_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0 || is_done_by_others(errno)) {
    return;
  }
  if (errno != EXDEV) {
    fail_step(to, errno);
  }
  constexpr std::uint64_t kNoLimit = UINT64_MAX;
  std::optional<FileSource> source;
  try {
    source.emplace(from);
    NewFile copy(to);
    copy.append(as_bytes(read_file(from, kNoLimit)));
    copy.give_time_of(source->identity());
    if (path_exists(from)) {
      copy.replace();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound || path_exists(from)) {
      throw;
    }
  }
  ::unlink(from.c_str());
}

class Commit {
 public:
  Commit(const std::string& dataset_path, std::string folder)
      : path_(dataset_path), folder_(std::move(folder)), id_(fs::path(folder_).filename()) {}

  void carry_out() {
    const std::string journal = folder_ + "/journal";
    constexpr std::uint64_t kLimitBytes = std::uint64_t{1} << 30;
    if (::access(journal.c_str(), R_OK) != 0 && is_denied(errno)) {
      fail_step(journal, errno);
    }
    const std::vector<CommitStep> steps = decode_journal(read_file(journal, kLimitBytes), journal);
    make_meta_folder();
    std::set<std::string> folders = {path_};
    for (const CommitStep& step : steps) {
      const std::string to = path_ + "/" + step.to;
      switch (step.kind) {
        case CommitStep::Kind::kMove:
          move_file(folder_ + "/" + step.from, to);
          break;
        case CommitStep::Kind::kMoveTemporary:
          move_file(path_ + "/" + step.from, to);
          break;
        case CommitStep::Kind::kRemove:
          remove(to);
          break;
      }
      folders.insert(folder_of(to));
    }
    for (const std::string& folder : folders) {
      if (path_exists(folder)) {  // otherwise its shards have been removed
        sync_folder(folder);
      }
    }
    finish();
  }

 private:
  void make_meta_folder() const {
    const std::string meta = path_ + "/.nv-meta";
    struct stat status {};
    if (::stat(folder_.c_str(), &status) == 0 && ::mkdir(meta.c_str(), 0700) == 0) {
      ::chmod(meta.c_str(), status.st_mode & 0777U);
    } else if (!path_exists(meta)) {
      fail_step(meta, errno);
    }
  }

  void remove(const std::string& from) {
    const std::string to = fmt::format("{}/removed.{}", folder_, removed_++);
    if (::rename(from.c_str(), to.c_str()) == 0 || is_done_by_others(errno)) {
      return;
    }
    // Across file systems. If another process finished this commit, the file may belong to the next
    // one, and stays.
    if (errno != EXDEV ||
        (path_exists(folder_) && ::unlink(from.c_str()) != 0 && !is_done_by_others(errno))) {
      fail_step(from, errno);
    }
  }

  void finish() {
    const std::string gone = fmt::format("{}/.nv-meta.prepare.{}", path_, id_);
    if (::rename(folder_.c_str(), gone.c_str()) != 0 && !is_done_by_others(errno)) {
      fail_step(gone, errno);
    }
    ::rmdir(commit_folder(path_).c_str());  // fails if the next commit is already published
    sync_folder(path_);
    std::error_code ignored;
    fs::remove_all(gone, ignored);
  }

  const std::string& path_;
  const std::string folder_;
  const std::string id_;
  int removed_ = 0;
};

}  // namespace

std::string_view unfinished_note() {
  return "A prepare of this dataset is replacing its files, or was interrupted. To finish it, run: "
         "energon info <folder of the dataset>\n";
}

std::string commit_folder(const std::string& dataset_path) {
  return dataset_path + "/.nv-meta.commit";
}

std::string published_commit(const std::string& dataset_path) {
  std::error_code error;
  fs::directory_iterator entry(commit_folder(dataset_path), error);
  return error || entry == fs::directory_iterator() ? std::string() : entry->path().string();
}

void publish_commit(const std::string& dataset_path, const std::string& staging) {
  constexpr int kAttempts = 100;  // other prepares that are just as fast
  int error = 0;
  for (int i = 0; i < kAttempts; ++i) {
    complete_commit(dataset_path);
    if (::rename(staging.c_str(), commit_folder(dataset_path).c_str()) == 0) {
      return;
    }
    error = errno;
    if (error != ENOTEMPTY && error != EEXIST) {
      break;
    }
  }
  throw io_error("cannot move the prepared files into place; the dataset is unchanged", error,
                 {.path = staging});
}

void complete_commit(const std::string& dataset_path) {
  constexpr std::chrono::seconds kPatience{30};
  constexpr std::chrono::milliseconds kBetweenLooks{20};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    const std::string published = published_commit(dataset_path);
    if (published.empty()) {
      return;
    }
    try {
      Commit(dataset_path, published).carry_out();
    } catch (const Denied& error) {
      if (std::chrono::steady_clock::now() >= deadline) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("a prepare was interrupted while it replaced the files of this "
                                "dataset, and this process lacks permission to finish it ({}); run "
                                "as a user with permission: energon info "
                                "{}",
                                error.what(), printable(dataset_path)),
                    {.path = commit_folder(dataset_path)});
      }
      std::this_thread::sleep_for(
          kBetweenLooks);  // the prepare that published the commit is still running
    } catch (const Error&) {
      if (path_exists(published + "/journal")) {
        throw;
      }
      if (path_exists(published)) {
        throw Error(ErrorCode::kCorruptData,
                    "an unfinished prepare has no journal, as after an incomplete copy; remove "
                    "this folder and prepare the dataset again",
                    {.path = commit_folder(dataset_path)});
      }
      // Another process has finished the commit meanwhile.
    }
  }
}

// --- Reading ---

namespace {

// The version of everything in an open dataset that a prepare changes.
std::string version_of(const std::string& dataset_path) {
  const std::string meta = dataset_path + "/.nv-meta";
  std::string version;
  struct stat status {};
  if (::stat((meta + "/.info.json").c_str(), &status) == 0) {
    version += fmt::format("|{}|{}|{}|{}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                           status.st_mtim.tv_nsec);
  }
  try {
    version += "|" + read_file(meta + "/index.uuid");
  } catch (const Error&) {  // older datasets have none
  }
  return version;
}

bool is_unchanged(const std::string& dataset_path, const std::string& version) {
  return published_commit(dataset_path).empty() && version_of(dataset_path) == version;
}

}  // namespace

void read_committed(const std::string& dataset_path, const std::function<void()>& read) {
  constexpr int kAttempts = 10;
  for (int i = 0; i < kAttempts; ++i) {
    complete_commit(dataset_path);
    const std::string before = version_of(dataset_path);
    try {
      read();
      if (is_unchanged(dataset_path, before)) {
        return;
      }
    } catch (const Error&) {
      if (is_unchanged(dataset_path, before)) {
        throw;
      }
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              "the dataset keeps being prepared while it is read; wait until the prepares end",
              {.path = dataset_path});
}

void read_committed(std::span<const std::string> dataset_paths, const std::function<void()>& read) {
  if (dataset_paths.empty()) {
    read();
    return;
  }
  read_committed(dataset_paths.front(), [&] { read_committed(dataset_paths.subspan(1), read); });
}

}  // namespace energon
