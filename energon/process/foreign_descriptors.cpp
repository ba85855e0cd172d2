#include "energon/process/foreign_descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/process/os_error.h"

namespace energon {
namespace {

constexpr int kFirstForeign = STDERR_FILENO + 1;
constexpr unsigned kMostWithoutProc = 65536;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// The numbers of all descriptors but that of the listing; nothing if there is no /proc.
std::optional<std::vector<int>> listed_descriptors() {
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir("/proc/self/fd"));
  if (folder == nullptr) {
    return std::nullopt;
  }
  std::vector<int> numbers;
  errno = 0;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    int number = 0;
    const auto end = std::from_chars(name.data(), name.data() + name.size(), number);
    if (end.ec == std::errc() && number != ::dirfd(folder.get())) {
      numbers.push_back(number);
    }
  }
  return errno == 0 ? std::optional(numbers) : std::nullopt;
}

// In a sandbox without /proc. Closes what has a number above those that can be looked at.
std::vector<int> probed_descriptors() {
  const long limit = ::sysconf(_SC_OPEN_MAX);
  const unsigned end =
      limit > 0 ? static_cast<unsigned>(std::min<long>(limit, kMostWithoutProc)) : kMostWithoutProc;
  std::vector<int> numbers;
  for (int fd = kFirstForeign; fd < static_cast<int>(end); ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) {
      numbers.push_back(fd);
    }
  }
#ifdef SYS_close_range
  ::syscall(SYS_close_range, end, ~0U, 0);
#endif
  return numbers;
}

// Seals alone do not tell: each file of a tmpfs has them. Nor does the missing name alone: a file
// of a tmpfs may have been deleted.
bool is_memfd(int fd, const struct stat& status) {
  if (status.st_nlink != 0 || ::fcntl(fd, F_GET_SEALS) < 0) {
    return false;
  }
  constexpr std::string_view kPrefix = "/memfd:";
  std::array<char, kPrefix.size()> target{};
  const ssize_t size =
      ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target.data(), target.size());
  return size < 0 || std::string_view(target.data(), static_cast<std::size_t>(size)) == kPrefix;
}

bool stays(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return false;
  }
  return S_ISDIR(status.st_mode) || (S_ISREG(status.st_mode) && !is_memfd(fd, status));
}

}  // namespace

ForeignDescriptors ForeignDescriptors::prepare() {
  UniqueFd placeholder(::open("/", O_PATH | O_CLOEXEC));
  if (!placeholder.valid()) {
    throw os_error("cannot open a placeholder for descriptors", errno);
  }
  UniqueFd spare(::fcntl(placeholder.get(), F_DUPFD_CLOEXEC, 0));
  if (!spare.valid()) {
    throw os_error("cannot open a placeholder for descriptors", errno);
  }
  return {std::move(placeholder), std::move(spare)};
}

void ForeignDescriptors::replace(std::span<const int> keep) {
  spare_.reset();
  const std::optional<std::vector<int>> listed = listed_descriptors();
  const std::vector<int> numbers = listed ? *listed : probed_descriptors();
  for (const int fd : numbers) {
    const bool is_ours = fd < kFirstForeign || fd == placeholder_.get() ||
                         std::find(keep.begin(), keep.end(), fd) != keep.end();
    if (is_ours || stays(fd)) {
      continue;
    }
    if (::dup3(placeholder_.get(), fd, O_CLOEXEC) < 0) {
      ::close(fd);  // above the limit, which was lowered since
    }
  }
  placeholder_.reset();
}

}  // namespace energon
