// A local file that is read by position.
//
// Reads are exact: a read that meets the end of the file is an error that says where the file ends,
// never a short result, because a shard that shrank must not look like one that ended. User files
// are never mapped: truncating a mapped file is a SIGBUS.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/bytes.h"
#include "io/unique_fd.h"

namespace energon {

/// What tells one version of a file from another.
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
  /// regular file (a FIFO or a device is refused at once, never waited for).
  explicit FileSource(std::string path);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return identity_.size_bytes; }
  /// As it was when the file was opened.
  const FileIdentity& identity() const { return identity_; }
  int fd() const { return fd_.get(); }

  /// Fills `out` from [offset, offset + out.size()). Throws Error (kCorruptData) with the byte at
  /// which the file ends if it is shorter, kIo if the system fails.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  /// Fills `out` from `offset` on, which is a part of `whole`. Throws as if all of `whole` were
  /// read at once and only `out` failed: errors don't depend on how a read is divided.
  void read_part_at(const ByteRange& whole, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  FileIdentity identity_;  // set while fd_ is opened, so it comes first
  UniqueFd fd_;
};

/// Reads a whole small file, such as a configuration. Throws as FileSource; kInvalidArgument above
/// `limit_bytes`.
std::string read_file(const std::string& path, std::uint64_t limit_bytes = std::uint64_t{64} << 20);

/// Replaces `path` by `content` (io/shared_folder.h): a reader or a crash sees the old file or the
/// new one, never half of it. Symbolic links are followed and stay. What is no regular file is
/// written into (io/output_target.h). Throws Error: kIo, kNotFound for a missing folder,
/// kInvalidArgument for what cannot be an output.
void write_file_atomically(const std::string& path, ByteView content, unsigned mode = 0644);

}  // namespace energon
