// Files that several processes, containers and machines may write at the same time.
//
// One protocol for all of them:
//   1. Each writer has a temporary file of its own, in the folder of the target. Its name ends in
//      random digits of the system (getrandom): process ids repeat across containers.
//   2. The file gets its content and goes to the disk (fsync).
//   3. It is published with one step: rename() where the newest content counts, link() where the
//      first one counts and the loser discards its own. So a name is absent or complete.
//   4. Locks only save work. flock() may be local to a machine, always succeed or be ENOSYS: what
//      is written is right in each of these cases.
//   5. What is made from a file belongs to one version of it, which size and modification time
//      tell. It carries them in its name, or carries the time as its own modification time. The
//      latter is for files beside the data, and only if the file system has kept it.
//   6. What a killed writer leaves is removed by a later writer in the same folder, once
//      it has not been changed for an hour. A living writer whose file was taken away notices, and
//      writes again or fails.

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "io/bytes.h"
#include "io/file_source.h"
#include "io/unique_fd.h"

namespace energon {

/// 16 hexadecimal digits that no other process has. Throws Error (kIo).
std::string random_digits();

/// "<path>.tmp.<random digits>"
std::string temporary_name(const std::string& path);

/// "a.idx" of "a.idx.tmp.0123456789abcdef" (or of ".tmp.<pid>.<number>", as older versions named
/// them); empty if `name` is not that of a temporary file.
std::string_view target_of_temporary(std::string_view name);

/// A file that appears at its place only when it is whole. The destructor removes what was not
/// published. Holds 1 MiB. Not thread-safe.
class NewFile {
 public:
  /// Creates the temporary file. Throws Error (kIo, kNotFound for a missing folder).
  explicit NewFile(std::string path, unsigned mode = 0644);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void append(ByteView bytes);

  /// For those who write by themselves, instead of append().
  int fd() const { return fd_.get(); }
  const std::string& temporary_path() const { return temporary_; }

  /// At its place the file will have the modification time of `source`, if the file system keeps
  /// it.
  void give_time_of(const FileIdentity& source);

  /// Puts the file at its place, over what is there, whose permissions it gets. Throws Error (kIo).
  void replace();

  /// Puts the file at its place unless one is there. False if another was first: what is there
  /// stays, ours is discarded. Throws Error (kIo).
  bool publish_once();

 private:
  void flush();
  void sync();
  void sync_folder() const;
  void set_time() noexcept;

  const std::string path_;
  std::string temporary_;  // empty once it is gone
  std::optional<FileIdentity> source_;
  UniqueFd fd_;
  std::string buffer_;
};

/// Writes entries of a folder to the disk. Throws Error (kIo).
void sync_folder(const std::string& folder);

/// "." if `path` has no folder.
std::string folder_of(const std::string& path);

enum class Locked {
  kYes,
  kNo,           ///< another has it
  kUnsupported,  ///< nobody knows
};

/// Takes the advisory lock of an open file or folder without waiting. It goes with the descriptor.
/// Nothing may be wrong if two have it: see above.
Locked try_lock(int fd) noexcept;

/// The version of the file at `path`, which is not opened; nothing if there is none.
std::optional<FileIdentity> identity_of(const std::string& path) noexcept;

/// Gives the file at `path` the modification time of `source`. False if it has another afterwards.
bool give_time_of(const std::string& path, const FileIdentity& source) noexcept;
/// Whether the file at `path` carries the modification time of `source`. False also if there is
/// none.
bool has_time_of(const std::string& path, const FileIdentity& source) noexcept;

/// How long what looks left behind must not have been changed before it is removed.
inline constexpr std::chrono::hours kAbandonedAfter{1};

/// The time of the file system of `folder`, which may be that of another machine. Empty if nothing
/// can be written there.
std::optional<std::chrono::nanoseconds> file_system_time(const std::string& folder);

/// Removes temporary files in `folder` whose target `is_ours` accepts (by name), that belong to
/// this user and have not been changed for kAbandonedAfter by the time of the file system. Failures
/// are ignored: a later call tries again.
void remove_abandoned(const std::string& folder, bool (*is_ours)(std::string_view target));

/// The same, at most once a process and folder: a listing of a large folder has its price.
void remove_abandoned_once(const std::string& folder, bool (*is_ours)(std::string_view target));

}  // namespace energon
