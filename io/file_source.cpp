#include "io/file_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

UniqueFd open_regular_file(const std::string& path, FileIdentity& identity) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    throw io_error("cannot open file", errno, {.path = path});
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    throw io_error("cannot stat file", errno, {.path = path});
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kInvalidArgument, "not a regular file", {.path = path});
  }
  identity.device = status.st_dev;
  identity.inode = status.st_ino;
  identity.size_bytes = static_cast<std::uint64_t>(status.st_size);
  identity.mtime_ns =
      static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
  return fd;
}

void write_all(int fd, ByteView content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw io_error("cannot write file", errno, {.path = path});
    }
    content = content.subspan(static_cast<std::size_t>(count));
  }
}

void sync_folder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) {
    throw io_error("cannot sync folder", errno, {.path = folder});
  }
}

}  // namespace

FileSource::FileSource(std::string path)
    : path_(std::move(path)), fd_(open_regular_file(path_, identity_)) {}

void FileSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  read_part_at({offset, out.size()}, offset, out);
}

void FileSource::read_part_at(const ByteRange& whole, std::uint64_t offset,
                              std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count =
        ::pread(fd_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw io_error("cannot read file", errno, {.path = path_, .byte_offset = offset + done});
    }
    if (count == 0) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("file ends at byte {}, but {} bytes from byte {} on were expected; it is "
                      "truncated or was changed after it was indexed",
                      offset + done, whole.size, whole.offset),
          {.path = path_, .byte_offset = offset + done});
    }
    done += static_cast<std::size_t>(count);
  }
}

std::string read_file(const std::string& path, std::uint64_t limit_bytes) {
  const FileSource source(path);
  if (source.size() > limit_bytes) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("file has {} bytes, at most {} are read here", source.size(), limit_bytes),
        {.path = path});
  }
  std::string content(source.size(), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(content)));
  return content;
}

void write_file_atomically(const std::string& path, ByteView content, unsigned mode) {
  static std::atomic<unsigned> counter{0};
  const std::string temporary = fmt::format("{}.tmp.{}.{}", path, ::getpid(), counter.fetch_add(1));
  UniqueFd fd(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.valid()) {
    throw io_error("cannot create file", errno, {.path = temporary});
  }
  try {
    write_all(fd.get(), content, temporary);
    if (::fsync(fd.get()) != 0) {
      throw io_error("cannot sync file", errno, {.path = temporary});
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw io_error("cannot rename the temporary file to its place", errno, {.path = path});
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  sync_folder(folder.empty() ? "." : folder);
}

}  // namespace energon
