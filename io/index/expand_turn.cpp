#include "io/index/expand_turn.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "io/file.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

// Bytes that the holder of `lock` has written: nothing if nobody knows.
std::optional<off_t> progress_of(int lock, const std::string& folder) {
  std::array<char, 256> name{};
  const ssize_t size = ::pread(lock, name.data(), name.size(), 0);
  const std::string_view announced(name.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  struct stat status {};
  if (announced.empty() || announced.find('/') != std::string_view::npos ||
      ::stat((folder + "/" + std::string(announced)).c_str(), &status) != 0) {
    return std::nullopt;
  }
  return status.st_size;
}

}  // namespace

ExpandTurn::ExpandTurn(const std::string& copy_path) : path_(copy_path + ".tmp.0000000000000000") {
  constexpr std::chrono::milliseconds kBetweenLooks{20};
  const std::string folder = folder_of(copy_path);
  auto deadline = std::chrono::steady_clock::now() + kExpandStallLimit;
  std::optional<off_t> last;
  while (!path_exists(copy_path) && std::chrono::steady_clock::now() < deadline) {
    UniqueFd lock(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.valid()) {
      return;
    }
    const Locked result = try_lock(lock.get());
    if (result == Locked::kUnsupported) {
      ::unlink(path_.c_str());
      return;
    }
    if (result == Locked::kYes) {
      lock_ = std::move(lock);
      if (is_in_place()) {
        return;
      }
      lock_.reset();  // its last holder has removed it
      continue;
    }
    if (const std::optional<off_t> size = progress_of(lock.get(), folder); size != last) {
      last = size;
      deadline = std::chrono::steady_clock::now() + kExpandStallLimit;
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

ExpandTurn::~ExpandTurn() {
  if (lock_.valid() && is_in_place()) {
    ::unlink(path_.c_str());
  }
}

void ExpandTurn::announce(const std::string& temporary_path) {
  if (lock_.valid() && ::ftruncate(lock_.get(), 0) == 0 && ::lseek(lock_.get(), 0, SEEK_SET) == 0) {
    // A failure costs the others their patience, nothing else.
    try_write_all(lock_.get(), as_bytes(std::filesystem::path(temporary_path).filename().native()));
  }
}

bool ExpandTurn::is_in_place() const {
  struct stat held {};
  struct stat named {};
  return ::fstat(lock_.get(), &held) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace energon
