// Files of file stores, fetched in the background before they are needed.
//
//   auto file = cache.get_lazy("images", open_images, "000123.jpg");  // returns at once
//   …                                              // shuffled, packed, perhaps never looked at
//   const SharedBytes bytes = file->get().bytes;   // in memory from here on
//
// What a sample refers to is read by threads of the cache and put on a local disk; it comes into
// memory when it is asked for. A file is there as long as one LazyFile of it. When the cache is
// full, fetches wait for room in the order in which they came; nobody who asks for a file does: it
// is then read from its store. Nothing is ever fetched twice at once, and nothing stays: the folder
// goes with the cache, or, if its process was killed, when the next cache is made beside it.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/store/file_store.h"
#include "io/store/store_pool.h"

namespace energon {

struct FileCacheOptions {
  /// Where the cache makes its folder; should be a fast local disk. Absent: the system's temporary
  /// folder.
  std::optional<std::string> parent_folder = std::nullopt;
  /// Fetches at the same time, from 1 to 1024. Each holds one file in memory until it is written.
  int threads = 8;
  /// Bytes on the disk, at least 1. A file that is larger is never cached. Default as Energon's.
  std::uint64_t max_bytes = std::uint64_t{1} << 40;
  /// Files on the disk, at least 1. Default as Energon's.
  std::int64_t max_files = 10'000'000;
};

/// Throws Error (kInvalidArgument).
void validate(const FileCacheOptions& options);

struct FileCacheUsage {
  std::uint64_t bytes = 0;     ///< on the disk, or reserved by a fetch that writes
  std::int64_t files = 0;      ///< likewise
  std::int64_t requested = 0;  ///< fetches that have not begun
  std::int64_t waiting = 0;    ///< fetches that wait for room
  /// Files that could not be put on the disk (it is full, say), since the cache was made. They are
  /// read from their stores.
  std::int64_t failed_writes = 0;
};

class FileCacheCore;
struct CacheEntry;

/// A file that is, or will be, in a cache. Thread-safe, as all that is const here.
class LazyFile {
 public:
  /// By FileCache::get_lazy() only. Takes over a reference to `entry`.
  LazyFile(std::shared_ptr<FileCacheCore> cache, std::shared_ptr<CacheEntry> entry);
  /// The last one of a file deletes it.
  ~LazyFile();
  LazyFile(const LazyFile&) = delete;
  LazyFile& operator=(const LazyFile&) = delete;

  /// The file as its store gives it; as often as wanted. Waits for a fetch that reads; never for
  /// one that has not begun or waits for room. Throws what the store threw, each time; Error
  /// (kCancelled) if the cache is gone, also while it waits, or belongs to another process.
  FileStoreItem get() const;

  const std::string& store_id() const;
  const std::string& name() const;

 private:
  const std::shared_ptr<FileCacheCore> cache_;
  const std::shared_ptr<CacheEntry> entry_;
};

/// Thread-safe. For one process: a forked child makes its own, and what it has of its parent's
/// throws Error (kCancelled) and leaves the parent's files alone.
class FileCache {
 public:
  /// Makes the folder, removes those that processes left behind, and starts the threads. Throws
  /// Error (kInvalidArgument, kIo, kNotFound, kResourceExhausted).
  explicit FileCache(const FileCacheOptions& options = {});
  /// Ends the threads, after the reads and writes under way, and removes the folder. Every get() of
  /// a LazyFile, also one that waits, ends with an Error (kCancelled).
  ~FileCache();
  FileCache(const FileCache&) = delete;
  FileCache& operator=(const FileCache&) = delete;

  /// Begins to fetch `name` of the store `store_id`, unless that has been begun. `open_store` opens
  /// that store; it must give the same one each time, is called in the threads of the cache and in
  /// those that ask, by several at once, and as long as the cache lives, so it holds what it needs.
  /// Errors of the store come with LazyFile::get().
  std::shared_ptr<LazyFile> get_lazy(const std::string& store_id, const StoreFactory& open_store,
                                     std::string name);

  /// Reads from the store, in this thread; nothing is cached but the open store.
  FileStoreItem get(const std::string& store_id, const StoreFactory& open_store,
                    std::string_view name);

  /// The folder of this cache.
  const std::string& folder() const;
  FileCacheUsage usage() const;

  /// Waits until no fetch can go on before a file is released: each has ended, or waits for room.
  /// For tests and benchmarks.
  void wait_until_settled() const;

 private:
  std::shared_ptr<FileCacheCore> core_;
};

}  // namespace energon
