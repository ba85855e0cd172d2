#include "io/formats/staging_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file_source.h"
#include "io/formats/path_exists.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLooseFolder = "loose";

void make_folder(const std::string& path, unsigned mode) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw io_error("cannot make folder", errno, {.path = path});
  }
  ::chmod(path.c_str(), mode);
}

// rename() fails between file systems, which a link to a shard's folder may lead to.
void move_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) {
    return;
  }
  if (errno != EXDEV) {
    throw io_error("cannot move a file to its place", errno, {.path = to});
  }
  constexpr std::uint64_t kNoLimit = UINT64_MAX;
  write_file_atomically(to, as_bytes(read_file(from, kNoLimit)), 0644);
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw io_error("cannot remove file", errno, {.path = path});
  }
}

}  // namespace

StagingFolder::StagingFolder(std::string dataset_path, unsigned folder_mode)
    : dataset_path_(std::move(dataset_path)), path_(dataset_path_ + "/.nv-meta.prepare") {
  // The lock is on the dataset's folder: it exists before and after, whatever is renamed in it.
  lock_.reset(::open(dataset_path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_.valid()) {
    throw io_error("cannot open folder", errno, {.path = dataset_path_});
  }
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw Error(ErrorCode::kInvalidArgument, "another process prepares this folder at the moment",
                {.path = dataset_path_});
  }
  // Other failures: a file system without locks. Two prepares at once are then up to the user.
  std::error_code error;
  fs::remove_all(path_, error);
  make_folder(path_, folder_mode);
  make_folder(fmt::format("{}/{}", path_, kLooseFolder), 0700);
}

StagingFolder::~StagingFolder() {
  std::error_code ignored;
  if (!is_committed_) {
    fs::remove_all(path_, ignored);
  }
}

std::string StagingFolder::meta_file(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

void StagingFolder::write_meta_file(std::string_view name, ByteView content, unsigned mode) const {
  write_file_atomically(meta_file(name), content, mode);
}

std::string StagingFolder::loose_file(std::int64_t number, std::string_view suffix) const {
  return fmt::format("{}/{}/{}{}", path_, kLooseFolder, number, suffix);
}

void StagingFolder::commit(const std::vector<std::pair<std::string, std::string>>& loose_files,
                           const std::vector<std::string>& stale, std::string_view last) {
  const std::string meta = dataset_path_ + "/.nv-meta";
  // From here on the old indices go, so the old dataset must not look prepared any more.
  remove_file(fmt::format("{}/{}", meta, last));
  for (const std::string& path : stale) {
    remove_file(path);
  }
  for (const auto& [from, to] : loose_files) {
    move_file(from, to);
  }
  std::error_code ignored;
  fs::remove_all(fmt::format("{}/{}", path_, kLooseFolder), ignored);
  if (!path_exists(meta)) {
    if (::rename(path_.c_str(), meta.c_str()) != 0) {
      throw io_error("cannot rename the prepared folder to its place", errno, {.path = meta});
    }
  } else {
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if (name != last) {
        move_file(entry.path().string(), fmt::format("{}/{}", meta, name));
      }
    }
    move_file(meta_file(last), fmt::format("{}/{}", meta, last));
    fs::remove_all(path_, ignored);
  }
  is_committed_ = true;
  ::fsync(lock_.get());
}

}  // namespace energon
