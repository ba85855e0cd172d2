#include "io/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/shared_folder.h"

namespace energon {

// --- Descriptors, paths and reading ---

namespace {

std::string what_to_do(int error_number) {
  if (error_number == ENFILE) {
    return "the machine has no descriptors left; raise fs.file-max, or read fewer shards in "
           "rotation";
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format(
      "this process may have {} (hard limit {}); raise the limit (ulimit -n), or close other files",
      limit.rlim_cur, limit.rlim_max);
}

// Maximum size of one read, so that a slow file system shows progress.
constexpr std::size_t kMostBytesAtOnce = std::size_t{8} << 20;

std::atomic<std::atomic<std::uint64_t>*> read_counter{nullptr};

void count_read(std::size_t bytes) {
  if (std::atomic<std::uint64_t>* const counter = read_counter.load(std::memory_order_acquire)) {
    counter->fetch_add(bytes, std::memory_order_relaxed);  // nothing is ordered by it
  }
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

void check_path(std::string_view path) {
  if (const std::size_t nul = path.find('\0'); nul != std::string_view::npos) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the path contains a NUL byte after {} bytes; file names cannot contain NUL",
                    nul),
        {.path = std::string(path)});
  }
}

bool path_exists(const std::string& path) {
  check_path(path);
  std::error_code code;
  const bool exists = std::filesystem::exists(path, code);
  for (const int error :
       {EACCES, EIO, ESTALE, ENOMEM, ENFILE, EMFILE, ETIMEDOUT, EAGAIN, EINTR, ELOOP}) {
    if (code.value() == error) {
      throw io_error("cannot look for file", error, {.path = path});
    }
  }
  return exists;
}

TooManyOpenFiles::TooManyOpenFiles(int error_number, const std::string& path)
    : Error(ErrorCode::kIo,
            fmt::format("{}: {}", io_error("cannot open file", error_number).message(),
                        what_to_do(error_number)),
            {.path = path}) {}

FileSource::FileSource(std::string path)
    : path_(std::move(path)), fd_(open_regular_file(path_, identity_)) {}

void count_reads_in(std::atomic<std::uint64_t>& counter) {
  read_counter.store(&counter, std::memory_order_release);
}

void FileSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  read_part_at({offset, out.size()}, offset, out);
}

void FileSource::read_part_at(const ByteRange& whole, std::uint64_t offset,
                              std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count =
        ::pread(fd_.get(), out.data() + done, std::min(out.size() - done, kMostBytesAtOnce),
                static_cast<off_t>(offset + done));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw io_error("cannot read file", errno, {.path = path_, .byte_offset = offset + done});
    }
    if (count == 0) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("file ends at byte {}, but expected {} bytes at offset {}; the file "
                              "is truncated or was changed after it was indexed",
                              offset + done, whole.size, whole.offset),
                  {.path = path_, .byte_offset = offset + done});
    }
    done += static_cast<std::size_t>(count);
    count_read(static_cast<std::size_t>(count));
  }
}

void check_size(const FileSource& file, std::uint64_t limit_bytes) {
  if (file.size() > limit_bytes) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("file has {} bytes, more than the limit of {}", file.size(), limit_bytes),
        {.path = file.path()});
  }
}

SharedBytes read_whole(const FileSource& file) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  auto memory = std::make_shared_for_overwrite<std::uint64_t[]>((file.size() + kWord - 1) / kWord);
  const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(memory.get()), file.size());
  file.read_at(0, bytes);
  return {.view = bytes, .owner = std::move(memory)};
}

std::string read_file(const std::string& path, std::uint64_t limit_bytes) {
  const FileSource source(path);
  check_size(source, limit_bytes);
  std::string content(source.size(), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(content)));
  return content;
}

std::optional<std::string> read_if_there(const std::string& path, std::uint64_t limit_bytes) {
  try {
    return read_file(path, limit_bytes);
  } catch (const Error&) {
    std::error_code is_unknown;
    if (path_exists(path) || std::filesystem::is_symlink(path, is_unknown)) {
      throw;
    }
    return std::nullopt;
  }
}

SharedBytes read_bytes(const FileSource& file, const ByteRange& range) {
  auto memory = std::make_shared_for_overwrite<std::byte[]>(range.size);
  const std::span<std::byte> bytes(memory.get(), range.size);
  file.read_at(range.offset, bytes);
  return {.view = bytes, .owner = std::move(memory)};
}

// --- Writing ---

WriteSignalsBlocked::WriteSignalsBlocked() {
  sigset_t pending;
  ::sigpending(&pending);
  ::sigemptyset(&raised_);
  for (const int number : {SIGXFSZ, SIGPIPE}) {
    if (::sigismember(&pending, number) == 0) {
      ::sigaddset(&raised_, number);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &raised_, &mask_);
}

WriteSignalsBlocked::~WriteSignalsBlocked() {
  const int error = errno;
  const timespec now{};
  while (::sigtimedwait(&raised_, nullptr, &now) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  errno = error;
}

int try_write_all(int fd, ByteView content) noexcept {
  const WriteSignalsBlocked blocked;
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno != EINTR) {
      return errno;
    }
    content = content.subspan(count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  return 0;
}

void write_all(int fd, ByteView content, std::string_view operation, const ErrorContext& where) {
  const int error = try_write_all(fd, content);
  if (error == EFBIG) {
    throw io_error(std::string(operation) + " (file size limit of the process, see ulimit -f)",
                   error, where);
  }
  if (error != 0) {
    throw io_error(operation, error, where);
  }
}

// --- Where to write ---

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
      return "not a regular file";
  }
}

[[noreturn]] void refuse(mode_t mode, std::string_view why, const std::string& path) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the output is {}{}; name a file", kind_of(mode), why), {.path = path});
}

// Links in these folders lead to descriptors; their targets are not paths to write to.
bool is_in_proc(const std::string& path) {
  struct statfs status {};
  return ::statfs(folder_of(path).c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

UniqueFd open_direct(const std::string& path, mode_t mode) {
  // O_NONBLOCK: a FIFO without a reader is refused, not waited for.
  UniqueFd fd(::open(path.c_str(),
                     O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (S_ISREG(mode) ? O_TRUNC : 0)));
  if (!fd.valid() && errno == ENXIO && S_ISFIFO(mode)) {
    refuse(mode, " without a reader", path);
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
      return {.file = file};  // not a link, or does not exist yet
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
    throw io_error("cannot write the output", errno, {.path = path});
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
