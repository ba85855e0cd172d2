// libarchive's view of an archive: the reference that our own walkers are checked against.
//
// Only the tar format and the one given filter are enabled: enabling all can run external programs.
// Whatever libarchive is not sure about (RETRY, WARN, FAILED) is an error here, because its way to
// go on after such a code is to leave members out.

#pragma once

#include <memory>
#include <optional>

#include "io/file_source.h"
#include "io/tar/compression.h"
#include "io/tar/tar_member.h"

struct archive;  // of libarchive

namespace energon {

/// Not thread-safe.
class ArchiveReader {
 public:
  /// `file` must outlive the reader. Offsets are those of the expanded archive. Throws Error
  /// (kCorruptData) if it is not a tar, kUnsupported if this libarchive cannot read `compression`.
  explicit ArchiveReader(const FileSource& file, Compression compression = Compression::kNone);
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// The next member; empty at the first zero block and at the end of the file.
  /// libarchive converts names to the locale's character set: only names in ASCII are sure to be
  /// the bytes of the archive, and one that cannot be converted is empty. `header_offset` includes
  /// global headers and volume labels before the member; `size` of a sparse member is its logical
  /// size.
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
