// Indices of shards that were not prepared, and expanded copies of compressed shards.
//
// A plain tar is indexed when it is first opened, and the index is kept next to it. The index has
// the modification time of its shard. If the two times differ, or the archive does not end where
// the index expects, the index is stale and is rebuilt, unless it proves that the shard has lost
// samples. If the folder is not writable, or its file system does not preserve the time, the index
// is stored in a cache folder; its name there depends on path, size and modification time of the
// shard. A compressed shard is expanded once, into the cache, and read from there like any other.
//
// Any number of processes on any number of machines may do this at once, and any of them may be
// killed: a file in the cache or next to the data is absent or complete (io/shared_folder.h). The
// functions are thread-safe.
//
// An unset cache folder parameter means default_cache_dir(), which is called only if the cache is
// needed.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/tar/shard_scan.h"

namespace energon {

/// $ENERGON_CACHE_DIR, else $XDG_CACHE_HOME/energon, else ~/.cache/energon. Throws Error
/// (kInvalidArgument) if none of the three variables is set.
std::string default_cache_dir();

/// The path of the folder `name` in the cache folder, which need not exist. Throws as
/// default_cache_dir().
std::string folder_in_cache(const std::optional<std::string>& cache_dir, std::string_view name);

/// The same, but nullopt if there is no cache folder.
std::optional<std::string> find_folder_in_cache(const std::optional<std::string>& cache_dir,
                                                std::string_view name);

/// Creates a folder in the cache, accessible only to its owner, because its content is trusted.
/// Throws Error (kIo) that names the variable to set.
void make_cache_folder(const std::string& folder);

/// A file name for data derived from this version of this file: the file's own name, shortened,
/// then 16 hexadecimal digits that depend on its absolute path, its size and its modification time.
std::string cache_name(const std::string& path, const FileIdentity& identity);

/// Whether a file is a shard, by its name: .tar, .tgz, .tar.gz, .tar.zst.
bool is_shard_name(std::string_view name);

/// The uncompressed tar of a shard: the shard itself or, if it is compressed, its copy under
/// `cache_dir`, which is created if it does not exist. Processes that see each other's locks wait
/// for the one that creates it (ExpandTurn). Other processes also create it, and the first
/// published copy stays. Throws Error: kIo, kCorruptData if the shard is damaged.
std::string ensure_expanded(const FileSource& shard, const std::optional<std::string>& cache_dir);
std::string ensure_expanded(const std::string& shard_path,
                            const std::optional<std::string>& cache_dir);

/// Returns the path of the index of the plain shard `shard_path`. Builds the index if it is absent
/// or stale. `tar_path` is the uncompressed tar: the same path unless the shard is compressed; then
/// the index is also in the cache. Throws Error: kIo, kCorruptData if the tar is damaged.
std::string ensure_indexed(const std::string& shard_path, const std::string& tar_path,
                           const std::optional<std::string>& cache_dir);

struct IndexedTar {
  std::string index_path;
  bool is_new = false;                     ///< built by this call
  std::vector<std::string> warnings = {};  ///< from the scan, if is_new
};

/// The same, with the warnings of the scan if the index is new. Also throws Error (kCorruptData) if
/// an index next to the tar proves that the tar has shrunk; that index is kept.
IndexedTar index_tar(const std::string& shard_path, const std::string& tar_path,
                     const std::optional<std::string>& cache_dir,
                     ScanStrictness strictness = ScanStrictness::kNormal);

/// How the older index at `old_index_path` proves that a tar of `tar_size` bytes has lost samples:
/// it lists samples past the end of the tar, or where the tar no longer has any. `entries` are the
/// tar's current sample offsets, as in an index, or none if unknown. Returns nullopt if the index
/// proves nothing, or is not an index.
std::optional<std::string> proof_of_shrinking(const std::string& old_index_path,
                                              std::uint64_t tar_size,
                                              std::span<const std::uint64_t> entries = {});

/// Sets the modification time of an index to that of its shard, so that ensure_indexed() treats it
/// as fresh. Ignores failures: the index is then rebuilt.
void mark_index_fresh(const std::string& index_path, const FileIdentity& shard);

/// Throws Error (kCorruptData) unless the archive in `tar` ends, with a zero block or the end of
/// the file, at `end_offset`, the end of the samples according to its index.
void check_archive_end(const FileSource& tar, std::uint64_t end_offset);

// --- One process at a time expands a shard ---
//
// Keeps several processes from doing the same work. The turn is a lock on the file
// `<copy>.tmp.0000000000000000` next to the future copy. The lock ends with its holder; if the
// holder is killed, the file is removed with the other temporary files. The turn only saves work:
// where locks do not reach other processes, several may hold the turn, and each publishes its own
// copy.

/// How long the holder of a turn may make no progress before others stop waiting.
inline constexpr std::chrono::minutes kExpandStallLimit{5};

class ExpandTurn {
 public:
  /// Waits while another process has the turn for `copy_path` and makes progress. Returns when the
  /// copy exists, this object has the turn, or waiting is useless (locks do not work here, or the
  /// other process stalls). Throws Error as path_exists().
  explicit ExpandTurn(const std::string& copy_path);
  /// Removes the lock file, if this object has the turn.
  ~ExpandTurn();
  ExpandTurn(const ExpandTurn&) = delete;
  ExpandTurn& operator=(const ExpandTurn&) = delete;

  /// Announces the file that will grow: waiting processes watch its size for progress.
  void announce(const std::string& temporary_path);

 private:
  bool is_in_place() const;

  const std::string path_;
  UniqueFd lock_;  // invalid unless this object has the turn
};

// --- Errors of expanded copies ---
//
// Copies are stored in the cache folder, not next to the shard.

/// Calls `read`, which reads `tar_path`: the shard `shard_path` itself or its expanded copy. For a
/// copy, an Error (kCorruptData) names the original shard and what to do.
template <class Read>
auto read_copy(const std::string& shard_path, const std::string& tar_path, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (tar_path == shard_path || error.code() != ErrorCode::kCorruptData) {
      throw;
    }
    throw Error(error.code(),
                fmt::format("{}; read from '{}', the expanded copy of '{}': if the shard is "
                            "intact, remove the copy, and it will be created again",
                            error.message(), printable(tar_path), printable(shard_path)),
                error.context());
  }
}

}  // namespace energon
