// A large file that is written piece by piece and appears at its place only when it is whole.
// Private to io/formats; small files use write_file_atomically().

#pragma once

#include <cstdint>
#include <string>

#include "io/bytes.h"
#include "io/unique_fd.h"

namespace energon {

/// Writes to a temporary file in the same folder, which the destructor removes unless commit() was
/// called. Holds 1 MiB. Not thread-safe.
class AtomicFile {
 public:
  /// Throws Error (kIo).
  explicit AtomicFile(std::string path, unsigned mode = 0644);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(ByteView bytes);

  /// Brings all to the disk and renames the file to its place. Nothing can be appended after it.
  void commit();

 private:
  void flush();

  const std::string path_;
  const std::string temporary_;
  UniqueFd fd_;
  std::string buffer_;
  bool is_committed_ = false;
};

}  // namespace energon
