#include "io/formats/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}.tmp.{}.{}", path, ::getpid(), counter.fetch_add(1));
}

}  // namespace

AtomicFile::AtomicFile(std::string path, unsigned mode)
    : path_(std::move(path)),
      temporary_(temporary_name(path_)),
      fd_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)) {
  if (!fd_.valid()) {
    throw io_error("cannot create file", errno, {.path = temporary_});
  }
}

AtomicFile::~AtomicFile() {
  if (!is_committed_) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::append(ByteView bytes) {
  buffer_.append(as_text(bytes));
  if (buffer_.size() >= kBufferBytes) {
    flush();
  }
}

void AtomicFile::flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(fd_.get(), buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno != EINTR) {
      throw io_error("cannot write file", errno, {.path = temporary_});
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  if (::fsync(fd_.get()) != 0) {
    throw io_error("cannot sync file", errno, {.path = temporary_});
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw io_error("cannot rename the temporary file to its place", errno, {.path = path_});
  }
  is_committed_ = true;
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const UniqueFd folder_fd(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_fd.valid() || ::fsync(folder_fd.get()) != 0) {
    throw io_error("cannot sync folder", errno, {.path = folder});
  }
}

}  // namespace energon
