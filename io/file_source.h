// A local file, read by position.
//
// Reads are exact. A read past the end of the file throws an Error that says where the file ends;
// it never returns a short result, because a shard that shrank must not look like one that ended.
// User files are never memory-mapped: reading a truncated mapping raises SIGBUS. For our own files
// there is io/file_content.h.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/bytes.h"
#include "io/error.h"
#include "io/unique_fd.h"

namespace energon {

/// The system refused to open one more file (kIo): the limit of the process or of the machine is
/// reached. The message names the limit and what to do.
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
  /// The identity when the file was opened.
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

/// Throws Error (kInvalidArgument) if `file` has more than `limit_bytes`.
void check_size(const FileSource& file, std::uint64_t limit_bytes);

/// Reads a whole small file, such as a configuration. Throws as FileSource, and kInvalidArgument if
/// the file is larger than `limit_bytes`.
std::string read_file(const std::string& path, std::uint64_t limit_bytes = std::uint64_t{64} << 20);

/// Replaces `path` with `content` atomically (io/shared_folder.h): readers see the old file or the
/// new one, also after a crash. Symbolic links are followed and kept. A target that is not a
/// regular file is written in place (io/output_target.h). Throws Error: kIo, kNotFound if the
/// folder is missing, kInvalidArgument if the target cannot be an output.
void write_file_atomically(const std::string& path, ByteView content, unsigned mode = 0644);

}  // namespace energon
