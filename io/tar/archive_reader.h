// Reads an archive with libarchive: the reference for the walkers in tar_walker.h.
//
// Only the tar format and the given filter are enabled, because some other filters run external
// programs. The libarchive codes RETRY, WARN and FAILED are errors here: after such a code,
// libarchive continues by leaving out members.

#pragma once

#include <memory>
#include <optional>

#include "io/file.h"
#include "io/tar/compression.h"
#include "io/tar/tar_walker.h"

struct archive;  // libarchive's handle

namespace energon {

/// Not thread-safe.
class ArchiveReader {
 public:
  /// `file` must outlive the reader. Offsets count in the decompressed archive. Throws Error
  /// (kCorruptData) if it is not a tar, kUnsupported if this libarchive cannot read `compression`.
  explicit ArchiveReader(const FileSource& file, Compression compression = Compression::kNone);
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// The next member; nullopt at the first zero block and at the end of the file. libarchive
  /// converts names to the locale's character set: only ASCII names are guaranteed to be the bytes
  /// of the archive, and a name that cannot be converted is empty. `header_offset` includes global
  /// headers and volume labels before the member. `size` of a sparse member is its logical size.
  /// Throws Error (kCorruptData) with path, byte offset and libarchive's reason; kIo.
  std::optional<TarMember> next();

 private:
  class Input;
  struct Closer {
    void operator()(::archive* archive) const;
  };

  [[noreturn]] void fail(int code) const;

  const std::unique_ptr<Input> input_;
  const std::unique_ptr<::archive, Closer> archive_;
};

}  // namespace energon
