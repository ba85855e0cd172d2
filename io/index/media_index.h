// Reads the `.nv-meta/index.sqlite` of a folder of files, which has the tables of media metadata
// and nothing else. Private to the library.
//
// The entry_key of a row is the path of its file, relative to the folder.
// docs/formats/energon_files.md gives the tables.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/concurrency.h"
#include "io/index/media_metadata.h"

namespace energon {

/// The file is opened read-only and immutable; nothing that its schema may contain is run. Not
/// thread-safe. Open it after fork(): find() throws Error (kCancelled) in a process other than the
/// constructor's.
class MediaIndex {
 public:
  /// Throws Error: kNotFound, kIo, kCorruptData if it is no database, kUnsupported if it has no
  /// media metadata.
  explicit MediaIndex(std::string path);
  ~MediaIndex();
  MediaIndex(const MediaIndex&) = delete;
  MediaIndex& operator=(const MediaIndex&) = delete;

  /// What is known of a file; nothing if it has no row. Throws Error (kCorruptData, kIo).
  std::optional<MediaMetadata> find(std::string_view entry_key) const;

  /// False in a forked child of the process that opened it.
  bool is_of_this_process() const { return owner_.is_current(); }

 private:
  struct Connection;

  const std::string path_;
  const OwnerProcess owner_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace energon
