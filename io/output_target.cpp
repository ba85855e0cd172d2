#include "io/output_target.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include <fmt/format.h>

#include "io/error.h"
#include "io/path_exists.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

std::string_view kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFSOCK:
      return "a socket";
    case S_IFBLK:
      return "a block device";
    case S_IFIFO:
      return "a FIFO";
    default:
      return "no regular file";
  }
}

[[noreturn]] void refuse(mode_t mode, std::string_view why, const std::string& path) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the output is {}{}; name a file", kind_of(mode), why), {.path = path});
}

// Links there lead to descriptors: what they show as their target is not a path to write to.
bool is_in_proc(const std::string& path) {
  struct statfs status {};
  return ::statfs(folder_of(path).c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

UniqueFd open_direct(const std::string& path, mode_t mode) {
  // O_NONBLOCK: a FIFO without a reader is refused, not waited for.
  UniqueFd fd(::open(path.c_str(),
                     O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (S_ISREG(mode) ? O_TRUNC : 0)));
  if (!fd.valid() && errno == ENXIO && S_ISFIFO(mode)) {
    refuse(mode, " that nobody reads", path);
  }
  const int flags = fd.valid() ? ::fcntl(fd.get(), F_GETFL) : -1;
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    throw io_error("cannot open the output", errno, {.path = path});
  }
  return fd;
}

void check_kind(const struct stat& status, const std::string& path) {
  if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode) && !S_ISFIFO(status.st_mode)) {
    refuse(status.st_mode, "", path);
  }
}

}  // namespace

OutputTarget resolve_output(const std::string& path) {
  check_path(path);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    check_kind(status, path);
    if (!S_ISREG(status.st_mode)) {
      return {.file = path, .direct = open_direct(path, status.st_mode)};
    }
  }
  constexpr int kMaxLinks = 40;  // as the kernel
  std::string file = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlink(file.c_str(), target.data(), target.size());
    if (size < 0) {
      return {.file = file};  // no link, or nothing there yet
    }
    if (is_in_proc(file)) {
      return {.file = path, .direct = open_direct(path, S_IFREG)};
    }
    const std::string next(target.data(), static_cast<std::size_t>(size));
    file = next.starts_with('/') ? next : fmt::format("{}/{}", folder_of(file), next);
  }
  throw io_error("cannot follow the links of the output", ELOOP, {.path = path});
}

void check_output(const std::string& path) {
  check_path(path);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    check_kind(status, path);
  } else if (errno != ENOENT) {
    throw io_error("the output cannot be written", errno, {.path = path});
  } else if (::stat(folder_of(resolve_output(path).file).c_str(), &status) != 0) {
    throw io_error("the folder of the output does not exist", errno, {.path = path});
  }
}

void check_can_append(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    throw io_error("cannot stat file", errno, {.path = path});
  }
  if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) {
    refuse(status.st_mode, "", path);
  }
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
    throw io_error("cannot open the output", errno, {.path = path});
  }
}

}  // namespace energon
