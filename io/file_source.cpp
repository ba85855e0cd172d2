#include "io/file_source.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "io/output_target.h"
#include "io/path_exists.h"
#include "io/shared_folder.h"
#include "io/write_all.h"

namespace energon {
namespace {

std::string what_to_do(int error_number) {
  if (error_number == ENFILE) {
    return "the machine has none left; raise fs.file-max, or read fewer shards in rotation";
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format(
      "this process may have {} (hard limit {}); raise the limit (ulimit -n), or close other files",
      limit.rlim_cur, limit.rlim_max);
}

UniqueFd open_regular_file(const std::string& path, FileIdentity& identity) {
  check_path(path);
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == EMFILE || errno == ENFILE) {
      throw TooManyOpenFiles(errno, path);
    }
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

}  // namespace

TooManyOpenFiles::TooManyOpenFiles(int error_number, const std::string& path)
    : Error(ErrorCode::kIo,
            fmt::format("{}: {}", io_error("cannot open file", error_number).message(),
                        what_to_do(error_number)),
            {.path = path}) {}

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

void check_size(const FileSource& file, std::uint64_t limit_bytes) {
  if (file.size() > limit_bytes) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("file has {} bytes, at most {} are read here", file.size(), limit_bytes),
        {.path = file.path()});
  }
}

std::string read_file(const std::string& path, std::uint64_t limit_bytes) {
  const FileSource source(path);
  check_size(source, limit_bytes);
  std::string content(source.size(), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(content)));
  return content;
}

void write_file_atomically(const std::string& path, ByteView content, unsigned mode) {
  const OutputTarget target = resolve_output(path);
  if (target.direct.valid()) {
    write_all(target.direct.get(), content, "cannot write the output", {.path = path});
    return;
  }
  NewFile file(target.file, mode);
  file.append(content);
  file.replace();
}

}  // namespace energon
