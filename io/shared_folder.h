// Files that several processes, containers and machines may write at the same time.
//
// All of them use one protocol:
//   1. Each writer has its own temporary file, in the folder of the target. The name ends in random
//      digits from getrandom(), because process ids repeat across containers.
//   2. The writer writes the content and calls fsync().
//   3. The file is published in one step: rename() where the newest content wins, link() where the
//      first content wins and later writers discard theirs. So a name is absent or complete.
//   4. Locks only save work. flock() may be local to a machine, always succeed, or fail with
//      ENOSYS; the files are correct in every case.
//   5. A derived file belongs to one version of its source, identified by size and modification
//      time. Either its name depends on both, or it has the modification time of its source. The
//      latter is for files next to the data, and only where the file system preserves times.
//   6. A later writer in the same folder removes the files of a killed writer, once they are
//      unchanged for an hour. A live writer whose file was removed notices, and writes again or
//      fails.

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "io/bytes.h"
#include "io/file.h"

namespace energon {

/// 16 random hexadecimal digits, unique across processes and machines. Throws Error (kIo).
std::string random_digits();

/// "<path>.tmp.<random digits>"
std::string temporary_name(const std::string& path);

/// The target of a temporary name: "a.idx" for "a.idx.tmp.0123456789abcdef". Empty if `name` is not
/// a temporary name.
std::string_view target_of_temporary(std::string_view name);

/// A file that appears at its path only when it is complete. The destructor removes a file that was
/// not published. Buffers 1 MiB. Not thread-safe.
class NewFile {
 public:
  /// Creates the temporary file. Throws Error (kIo, kNotFound for a missing folder).
  explicit NewFile(std::string path, unsigned mode = 0644);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void append(ByteView bytes);

  /// For callers that write to the descriptor themselves, instead of append().
  int fd() const { return fd_.get(); }
  const std::string& temporary_path() const { return temporary_; }

  /// The published file gets the modification time of `source`, if the file system keeps it.
  void give_time_of(const FileIdentity& source);

  /// Publishes the file. An existing file is replaced, and its permissions are kept. Throws Error
  /// (kIo).
  void replace();

  /// Publishes the file unless one exists. Returns false if another writer was first; the existing
  /// file then stays, and this one is discarded. Throws Error (kIo).
  bool publish_once();

 private:
  void flush();
  void sync();
  void sync_folder() const;
  void set_time() noexcept;

  const std::string path_;
  std::string temporary_;  // empty once published
  std::optional<FileIdentity> source_;
  UniqueFd fd_;
  std::string buffer_;
};

/// Writes the entries of a folder to disk (fsync). Throws Error (kIo).
void sync_folder(const std::string& folder);

/// The parent folder of `path`; "." if it has none.
std::string folder_of(const std::string& path);

enum class Locked {
  kYes,
  kNo,           ///< another holder has the lock
  kUnsupported,  ///< locking failed: there may be another holder
};

/// Tries to acquire the advisory lock of an open file or folder, without waiting. Closing the
/// descriptor releases the lock. Callers must stay correct if two processes hold it (item 4 above).
Locked try_lock(int fd) noexcept;

/// The version of the file at `path`, without opening it; nullopt if the file does not exist.
std::optional<FileIdentity> identity_of(const std::string& path) noexcept;

/// Sets the modification time of the file at `path` to that of `source`. Returns false if the file
/// ends up with a different time.
bool give_time_of(const std::string& path, const FileIdentity& source) noexcept;
/// Whether the file at `path` has the modification time of `source`. False if the file does not
/// exist.
bool has_time_of(const std::string& path, const FileIdentity& source) noexcept;

/// How long an apparently abandoned file must be unchanged before it is removed.
inline constexpr std::chrono::hours kAbandonedAfter{1};

/// The current time of the file system of `folder`, which may be the clock of another machine.
/// Empty if no file can be created in `folder`.
std::optional<std::chrono::nanoseconds> file_system_time(const std::string& folder);

/// Removes temporary files in `folder` if `is_ours` accepts the name of their target, they belong
/// to this user, and they are unchanged for kAbandonedAfter by the time of the file system. Ignores
/// failures: a later call tries again.
void remove_abandoned(const std::string& folder, bool (*is_ours)(std::string_view target));

/// The same, at most once per process and folder, because listing a large folder is slow.
void remove_abandoned_once(const std::string& folder, bool (*is_ours)(std::string_view target));

}  // namespace energon
