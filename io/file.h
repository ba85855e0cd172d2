// Local files: descriptors, paths, reading by position, and writing.
//
// Reads are exact. A read past the end of the file throws an Error that gives the file's size; it
// never returns a short result, because a shard that shrank must not look like one that ended. No
// file is memory-mapped, not even our own indices: any process may truncate a file in place, and
// reading its mapping would then kill this process with SIGBUS.
//
// A failed write is an error, not a signal. By default, a write past the file size limit of the
// process (ulimit -f), or to a pipe without readers, raises a signal that ends the process. A
// library must not change signal handlers. Instead, these signals are blocked in the writing
// thread, and a signal raised by the write is consumed: the write fails with EFBIG or EPIPE.

#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/bytes.h"
#include "io/error.h"

namespace energon {

// --- Descriptors and paths ---

/// Closes its descriptor on destruction. Ignores errors of close(): only readers and anonymous
/// descriptors are held here, and writers check fsync() first. A moved-from object is empty.
class UniqueFd {
 public:
  static constexpr int kInvalid = -1;

  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, kInvalid)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(std::exchange(other.fd_, kInvalid));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ != kInvalid; }
  int release() { return std::exchange(fd_, kInvalid); }
  void reset(int fd = kInvalid) {
    if (const int old = std::exchange(fd_, fd); old != kInvalid) {
      ::close(old);
    }
  }

 private:
  int fd_ = kInvalid;
};

/// Throws Error (kInvalidArgument) if `path` contains a NUL byte, because the system would silently
/// use only the part before it.
void check_path(std::string_view path);

/// Also false for a path that cannot exist, such as a brace pattern longer than a path may be;
/// opening it then reports why. Throws Error: kInvalidArgument as check_path(); kIo if the answer
/// is unknown, because the disk or server does not respond, a folder is not searchable, or a link
/// leads to itself.
bool path_exists(const std::string& path);

// --- Reading ---

/// The process or the machine has reached its limit of open files (kIo). The message names the
/// limit and what to do.
class TooManyOpenFiles final : public Error {
 public:
  /// `error_number`: EMFILE or ENFILE.
  TooManyOpenFiles(int error_number, const std::string& path);
};

/// Identifies one version of a file.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};

/// Thread-safe: pread() has no shared position.
class FileSource {
 public:
  /// Opens `path` for reading. Throws Error: kNotFound, kIo, or kInvalidArgument if it is not a
  /// regular file (a FIFO or a device is refused at once, never waited for); TooManyOpenFiles.
  explicit FileSource(std::string path);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return identity_.size_bytes; }
  /// The identity of the file at the time it was opened.
  const FileIdentity& identity() const { return identity_; }
  int fd() const { return fd_.get(); }

  /// Fills `out` from [offset, offset + out.size()). Throws Error: kCorruptData with the offset of
  /// the file's end if the file is too short, kIo if the system fails.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  /// Fills `out` from `offset`, as one part of the larger read `whole`. Errors describe `whole`, so
  /// they do not depend on how a read is divided.
  void read_part_at(const ByteRange& whole, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  FileIdentity identity_;  // set while fd_ is opened, so declared first
  UniqueFd fd_;
};

/// From now on, adds the number of bytes that FileSources of this process read to `counter`, so
/// that another process can see that a slow read makes progress. `counter` must stay valid until
/// the process ends. A fork inherits the setting. Thread-safe.
void count_reads_in(std::atomic<std::uint64_t>& counter);

/// Throws Error (kInvalidArgument) if `file` has more than `limit_bytes`.
void check_size(const FileSource& file, std::uint64_t limit_bytes);

/// Reads all of `file` into memory that is aligned for integers of 8 bytes. Throws Error as
/// FileSource::read_at().
SharedBytes read_whole(const FileSource& file);

/// Reads a whole small file, such as a configuration. Throws as FileSource, and kInvalidArgument if
/// the file is larger than `limit_bytes`.
std::string read_file(const std::string& path, std::uint64_t limit_bytes = std::uint64_t{64} << 20);

/// As read_file(), but nullopt if nothing exists at `path`, not even a dangling link. Saves the
/// system calls of a separate check.
std::optional<std::string> read_if_there(const std::string& path, std::uint64_t limit_bytes);

/// Requires: `range` lies within the file. Throws Error as FileSource::read_at().
SharedBytes read_bytes(const FileSource& file, const ByteRange& range);

// --- Writing ---

/// While an object lives, SIGXFSZ and SIGPIPE do not reach the thread that created it. For
/// third-party code that writes, such as SQLite; write_all() does this itself. Signals that were
/// pending before stay pending. Must be destroyed in the thread that created it.
class WriteSignalsBlocked {
 public:
  WriteSignalsBlocked();
  ~WriteSignalsBlocked();
  WriteSignalsBlocked(const WriteSignalsBlocked&) = delete;
  WriteSignalsBlocked& operator=(const WriteSignalsBlocked&) = delete;

 private:
  sigset_t raised_ = {};  // which of the two were not pending before
  sigset_t mask_ = {};    // the mask before
};

/// Writes all of `content` at the position of `fd`. Returns 0 or the error number; after an error,
/// it is unknown how much was written. Thread-safe.
int try_write_all(int fd, ByteView content) noexcept;

/// The same, but throws Error (kIo), which names `operation` and `where`.
void write_all(int fd, ByteView content, std::string_view operation, const ErrorContext& where);

// --- Where to write ---

/// Where to write the output for a path.
struct OutputTarget {
  /// The file to replace or create: `path` with symbolic links resolved, so that the links stay.
  std::string file = {};
  /// If valid, `path` is a character device such as /dev/null, a FIFO, or a descriptor such as
  /// /dev/stdout: write to `direct`, and replace nothing.
  UniqueFd direct = {};
};

/// Throws Error: kInvalidArgument for a folder, a socket, a block device, or a FIFO without a
/// reader (the call does not wait for one); kIo.
OutputTarget resolve_output(const std::string& path);

/// Checks `path` without opening it, before long work starts. Throws Error: kInvalidArgument if it
/// can never be an output, kNotFound if its folder does not exist, kIo.
void check_output(const std::string& path);

/// Clears O_NONBLOCK of a file that was opened for appending with O_NONBLOCK, so that open() did
/// not wait on a FIFO. Throws Error: kInvalidArgument unless it is a regular file or a character
/// device, because writes to other kinds can block forever; kIo. Errors name `path`.
void check_can_append(int fd, const std::string& path);

/// Replaces `path` with `content` atomically (io/shared_folder.h): readers see the old file or the
/// new one, also after a crash. Symbolic links are followed and kept. A target that is not a
/// regular file is written in place (resolve_output()). Throws Error: kIo, kNotFound if the
/// folder is missing, kInvalidArgument if the target cannot be an output.
void write_file_atomically(const std::string& path, ByteView content, unsigned mode = 0644);

}  // namespace energon
