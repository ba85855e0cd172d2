// Indices and expanded copies of shards that were not prepared.
//
// A plain tar is indexed when it is first opened. Its index is kept beside it. There it carries its
// shard's modification time as its own: where the two differ, or the archive does not end where the
// index says, it is stale and is built again, unless it proves that the shard has lost samples.
// Where that folder cannot be written, or its file system does not keep the time of the index, the
// index is in a cache folder: there path, size and modification time of the shard are part of the
// name. A compressed shard is expanded once, into the cache, and read from there like any other.
//
// Any number of processes on any number of machines may do this at once, and any of them may be
// killed: a name in the cache or beside the data is absent or complete (io/shared_folder.h). The
// functions are thread-safe.
//
// Where a function takes a cache folder, absent means default_cache_dir(), which is asked for only
// if the cache is needed.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_source.h"
#include "io/tar/shard_scan.h"

namespace energon {

/// $ENERGON_CACHE_DIR, else $XDG_CACHE_HOME/energon, else ~/.cache/energon. Throws Error
/// (kInvalidArgument) if none of the three variables is set.
std::string default_cache_dir();

/// The path of the folder `name` in the cache folder; it need not exist. Throws as
/// default_cache_dir().
std::string folder_in_cache(const std::optional<std::string>& cache_dir, std::string_view name);

/// The same; nothing where there is no place for a cache.
std::optional<std::string> find_folder_in_cache(const std::optional<std::string>& cache_dir,
                                                std::string_view name);

/// Makes such a folder, for its owner only, because what is in it is trusted. Throws Error (kIo)
/// that names the variable to set.
void make_cache_folder(const std::string& folder);

/// A file name for what was derived from this version of this file: its own name, shortened, then
/// 16 hexadecimal digits that depend on its absolute path, its size and its modification time.
std::string cache_name(const std::string& path, const FileIdentity& identity);

/// Whether a file found in a folder is a shard, by its name: .tar, .tgz, .tar.gz, .tar.zst.
bool is_shard_name(std::string_view name);

/// The uncompressed tar of a shard: its own path, or its copy under `cache_dir`, which is
/// made if it is not there. Processes that can see each other's locks wait for the one that makes
/// it (io/index/expand_turn.h); others make it, too, and the first one's copy stays. Throws
/// Error: kIo, kCorruptData if the shard is damaged.
std::string ensure_expanded(const FileSource& shard, const std::optional<std::string>& cache_dir);
std::string ensure_expanded(const std::string& shard_path,
                            const std::optional<std::string>& cache_dir);

/// Index of the plain shard `shard_path`, whose uncompressed tar is `tar_path` (both are the same
/// unless the shard is compressed; then the index is in the cache, too). Built if it is absent or
/// stale. Returns the path of the index. Throws Error: kIo, kCorruptData if the tar is damaged.
std::string ensure_indexed(const std::string& shard_path, const std::string& tar_path,
                           const std::optional<std::string>& cache_dir);

struct IndexedTar {
  std::string index_path;
  bool is_new = false;                     ///< built by this call, else it was there
  std::vector<std::string> warnings = {};  ///< of the scan, if it is new
};

/// The same, with what the scan of a new index warns of. Throws Error (kCorruptData), too, if an
/// index beside the tar proves that the tar has shrunk; that index is kept.
IndexedTar index_tar(const std::string& shard_path, const std::string& tar_path,
                     const std::optional<std::string>& cache_dir,
                     ScanStrictness strictness = ScanStrictness::kNormal);

/// What an older index of the same name says against `tar`, whose samples now are at `entries` (as
/// of an index; empty: not known yet): samples that it lists lie behind the end of the tar, or
/// where the tar has none any more. Empty if it says nothing, or is no index.
std::optional<std::string> proof_of_shrinking(const std::string& old_index_path,
                                              std::uint64_t tar_size,
                                              std::span<const std::uint64_t> entries = {});

/// Gives an index the modification time of its shard, which makes it a fresh one for
/// ensure_indexed(). A failure is ignored: the index is then built again.
void mark_index_fresh(const std::string& index_path, const FileIdentity& shard);

/// Throws Error (kCorruptData) unless `tar` ends where its index says that the
/// samples end: at the end of the file or with a block of zeros.
void check_archive_end(const FileSource& tar, std::uint64_t end_offset);

}  // namespace energon
