#include "io/shared_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "io/concurrency.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::string_view kTemporaryMark = ".tmp.";
constexpr std::string_view kHexadecimal = "0123456789abcdef";
constexpr std::size_t kRandomDigits = 16;
constexpr std::string_view kClockName = ".energon-clock";  // created to read a folder's clock

timespec time_of(const FileIdentity& source) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  timespec time{.tv_sec = source.mtime_ns / kNanoseconds,
                .tv_nsec = source.mtime_ns % kNanoseconds};
  if (time.tv_nsec < 0) {  // before 1970
    time.tv_sec -= 1;
    time.tv_nsec += kNanoseconds;
  }
  return time;
}

std::chrono::nanoseconds changed_at(const struct stat& status) {
  return std::chrono::seconds(status.st_mtim.tv_sec) +
         std::chrono::nanoseconds(status.st_mtim.tv_nsec);
}

bool consists_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// link(); on file systems without links, its equivalent; where that is missing too, a plain rename,
// with which the later writer may win, with the same content.
int publish_new(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) {
    ::unlink(from.c_str());
    return 0;
  }
  if (errno == EEXIST || errno == ENOENT) {
    return errno;
  }
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno == EEXIST || errno == ENOENT) {
    return errno;
  }
  struct stat status {};
  if (::lstat(to.c_str(), &status) == 0) {
    return EEXIST;
  }
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

std::string random_digits() {
  std::uint64_t number = 0;
  ssize_t count = 0;
  do {
    count = ::getrandom(&number, sizeof(number), 0);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof(number))) {
    throw io_error("cannot get random bytes", errno);
  }
  return to_hex(number);
}

std::string temporary_name(const std::string& path) {
  return path + std::string(kTemporaryMark) + random_digits();
}

std::string_view target_of_temporary(std::string_view name) {
  const std::size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string_view::npos || mark == 0) {
    return {};
  }
  const std::string_view digits = name.substr(mark + kTemporaryMark.size());
  const bool is_temporary = digits.size() == kRandomDigits && consists_of(digits, kHexadecimal);
  return is_temporary ? name.substr(0, mark) : std::string_view();
}

NewFile::NewFile(std::string path, unsigned mode) : path_(std::move(path)) {
  check_path(path_);
  temporary_ = temporary_name(path_);
  fd_.reset(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd_.valid()) {
    throw io_error("cannot create file", errno, {.path = std::exchange(temporary_, {})});
  }
}

NewFile::~NewFile() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void NewFile::append(ByteView bytes) {
  buffer_.append(as_text(bytes));
  if (buffer_.size() >= kBufferBytes) {
    flush();
  }
}

void NewFile::flush() {
  write_all(fd_.get(), as_bytes(buffer_), "cannot write file", {.path = temporary_});
  buffer_.clear();
}

void NewFile::sync() {
  flush();
  if (::fsync(fd_.get()) != 0) {
    throw io_error("cannot sync file", errno, {.path = temporary_});
  }
}

void NewFile::give_time_of(const FileIdentity& source) { source_ = source; }

// Only after publishing: a temporary file with an old time would look abandoned.
void NewFile::set_time() noexcept {
  if (source_) {
    const timespec time = time_of(*source_);
    const std::array<timespec, 2> times = {time, time};
    ::futimens(fd_.get(), times.data());
  }
}

void NewFile::replace() {
  struct stat old = {};
  if (::stat(path_.c_str(), &old) == 0) {
    ::fchmod(fd_.get(), old.st_mode & 0777);  // a file system without permissions keeps none
  }
  sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw io_error("cannot rename the temporary file", errno, {.path = path_});
  }
  temporary_.clear();
  set_time();
  sync_folder();
}

bool NewFile::publish_once() {
  sync();
  const int error = publish_new(temporary_, path_);
  if (error == EEXIST) {
    return false;  // the destructor removes ours
  }
  if (error != 0) {
    throw io_error("cannot publish the temporary file", error, {.path = path_});
  }
  temporary_.clear();
  set_time();
  sync_folder();
  return true;
}

void NewFile::sync_folder() const { energon::sync_folder(folder_of(path_)); }

void sync_folder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: the file system does not support this for folders.
  if (!fd.valid() || (::fsync(fd.get()) != 0 && errno != EINVAL)) {
    throw io_error("cannot sync folder", errno, {.path = folder});
  }
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Locked try_lock(int fd) noexcept {
  int result = 0;
  do {
    result = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    return Locked::kYes;
  }
  return errno == EWOULDBLOCK ? Locked::kNo : Locked::kUnsupported;
}

std::optional<FileIdentity> identity_of(const std::string& path) noexcept {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return std::nullopt;
  }
  return FileIdentity{.device = status.st_dev,
                      .inode = status.st_ino,
                      .size_bytes = static_cast<std::uint64_t>(status.st_size),
                      .mtime_ns = changed_at(status).count()};
}

bool give_time_of(const std::string& path, const FileIdentity& source) noexcept {
  const timespec time = time_of(source);
  const std::array<timespec, 2> times = {time, time};
  ::utimensat(AT_FDCWD, path.c_str(), times.data(), 0);
  return has_time_of(path, source);
}

bool has_time_of(const std::string& path, const FileIdentity& source) noexcept {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 &&
         changed_at(status) == std::chrono::nanoseconds(source.mtime_ns);
}

std::optional<std::chrono::nanoseconds> file_system_time(const std::string& folder) {
  try {
    const NewFile probe(folder + "/" + std::string(kClockName), 0600);
    struct stat status {};
    if (::fstat(probe.fd(), &status) == 0) {
      return changed_at(status);
    }
  } catch (const Error&) {  // read-only, or gone
  }
  return std::nullopt;
}

void remove_abandoned(const std::string& folder, bool (*is_ours)(std::string_view target)) {
  std::set<std::string> found;
  if (const std::unique_ptr<DIR, CloseFolder> listing(::opendir(folder.c_str())); listing) {
    while (const dirent* entry = ::readdir(listing.get())) {
      const std::string_view target = target_of_temporary(entry->d_name);
      if (!target.empty() && (target == kClockName || is_ours(target))) {
        found.insert(folder + "/" + entry->d_name);
      }
    }
  }
  if (found.empty()) {
    return;
  }
  const auto now = file_system_time(folder);
  for (const std::string& path : found) {
    struct stat status {};
    if (now && ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_uid == ::geteuid() && *now - changed_at(status) >= kAbandonedAfter) {
      ::unlink(path.c_str());
    }
  }
}

void remove_abandoned_once(const std::string& folder, bool (*is_ours)(std::string_view target)) {
  static Mutex mutex;
  static std::set<std::string> done ENERGON_GUARDED_BY(mutex);
  {
    const MutexLock lock(mutex);
    if (!done.insert(folder).second) {
      return;
    }
  }
  remove_abandoned(folder, is_ours);
}

}  // namespace energon
