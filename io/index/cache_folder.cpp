#include "io/index/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "io/error.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "energon-cache-";
constexpr const char* kLockName = "lock";

// Whether the lock is still that of the folder: one that is removed is renamed before.
bool is_in_place(int lock, const std::string& folder) {
  struct stat held {};
  struct stat named {};
  return ::fstat(lock, &held) == 0 && ::stat((folder + "/" + kLockName).c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

// By the lock; without locks, by how long nothing was put into the folder or taken from it. A
// living cache whose folder is removed reads from its stores.
bool is_left_behind(int lock, const std::string& folder) {
  const Locked locked = try_lock(lock);
  struct stat status {};
  if (locked != Locked::kUnsupported || ::stat(folder.c_str(), &status) != 0) {
    return locked == Locked::kYes;
  }
  const auto changed = std::chrono::seconds(status.st_mtim.tv_sec);
  const auto now = file_system_time(folder_of(folder));
  return now && *now - changed >= kAbandonedAfter;
}

// Others may write to the parent, too: a link, or a folder of theirs, is none of ours.
void remove_if_left_behind(const std::string& path) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  if (!folder.valid() || ::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid()) {
    return;
  }
  // Without its lock file it is being made, or was being removed. Making one tells its maker that
  // it came too late.
  const UniqueFd lock(
      ::openat(folder.get(), kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid() || !is_left_behind(lock.get(), path)) {
    return;
  }
  // Renamed first: its maker, if there is one, could lock another file in it while it is emptied.
  const std::string gone = path + "-gone";
  if (::rename(path.c_str(), gone.c_str()) == 0) {
    std::error_code ignored;  // the next one tries again
    fs::remove_all(gone, ignored);
  }
}

void remove_left_behind(const std::string& parent) {
  std::error_code error;
  fs::directory_iterator entry(parent, error);
  while (!error && entry != fs::directory_iterator()) {
    if (entry->path().filename().string().starts_with(kPrefix)) {
      remove_if_left_behind(entry->path().string());
    }
    entry.increment(error);
  }
}

}  // namespace

CacheFolder::CacheFolder(const std::string& parent_folder) {
  std::error_code error;
  const std::string parent = fs::absolute(parent_folder, error).string();
  if (!error) {
    fs::create_directories(parent, error);
  }
  if (error) {
    throw io_error("cannot make the folder for caches", error.value(), {.path = parent_folder});
  }
  remove_left_behind(parent);
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    path_ = fmt::format("{}/{}{}", parent, kPrefix, random_digits());
    if (::mkdir(path_.c_str(), 0700) != 0) {
      throw io_error("cannot make a cache folder; choose another parent folder", errno,
                     {.path = path_});
    }
    lock_.reset(
        ::open((path_ + "/" + kLockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_.valid() && errno != ENOENT) {
      const int failure = errno;
      ::rmdir(path_.c_str());
      throw io_error("cannot make the lock of a cache folder", failure, {.path = path_});
    }
    if (lock_.valid() && try_lock(lock_.get()) != Locked::kNo && is_in_place(lock_.get(), path_)) {
      return;
    }
    // Another process took it for left behind, and removes it.
  }
  throw Error(ErrorCode::kIo, "cache folders vanish as soon as they are made", {.path = parent});
}

CacheFolder::~CacheFolder() {
  if (owner_.is_current()) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
}

}  // namespace energon
