// A cache of files from file stores, which fetches them in the background before they are needed.
//
//   auto file = cache.get_lazy("images", open_images, "000123.jpg");  // returns at once
//   …                                              // shuffled, packed, perhaps never used
//   const SharedBytes bytes = file->get().bytes;   // in memory from here on
//
// Threads of the cache read the files that samples refer to and write them to a local disk;
// LazyFile::get() reads a file back into memory. A file stays cached as long as any LazyFile refers
// to it. When the cache is full, fetches wait for room, in request order. get() never waits for
// room; it reads from the store. No file is fetched twice at the same time. Nothing persists: the
// folder is removed with the cache or, if its process was killed, when the next cache is created
// next to it.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/store/file_store.h"

namespace energon {

struct FileCacheOptions {
  /// Where the cache creates its folder; should be a fast local disk. Unset means the system's
  /// temporary folder.
  std::optional<std::string> parent_folder = std::nullopt;
  /// Concurrent fetches, from 1 to 1024. Each holds one file in memory until it is written.
  int threads = 8;
  /// Limit for bytes on disk, at least 1. A larger file is never cached. Same default as Energon.
  std::uint64_t max_bytes = std::uint64_t{1} << 40;
  /// Limit for files on disk, at least 1. Same default as Energon.
  std::int64_t max_files = 10'000'000;
};

/// Throws Error (kInvalidArgument).
void validate(const FileCacheOptions& options);

struct FileCacheUsage {
  std::uint64_t bytes = 0;     ///< on disk, or reserved by a fetch that is writing
  std::int64_t files = 0;      ///< likewise
  std::int64_t requested = 0;  ///< fetches that have not started
  std::int64_t waiting = 0;    ///< fetches that wait for room
  /// Files that could not be written to disk (for example, a full one) since the cache was created.
  /// They are read from their stores.
  std::int64_t failed_writes = 0;
};

class FileCacheCore;
struct CacheEntry;

/// A file that is, or will be, in a cache. Thread-safe.
class LazyFile {
 public:
  /// For FileCache::get_lazy() only. Takes over a reference to `entry`.
  LazyFile(std::shared_ptr<FileCacheCore> cache, std::shared_ptr<CacheEntry> entry);
  /// Destroying the last LazyFile of a file removes the file from the cache.
  ~LazyFile();
  LazyFile(const LazyFile&) = delete;
  LazyFile& operator=(const LazyFile&) = delete;

  /// The file, as returned by its store; may be called repeatedly. Waits for a fetch that is
  /// reading the file, never for one that has not started or waits for room. Each call throws what
  /// the store threw, or Error (kCancelled) if the cache is destroyed, even during the wait, or
  /// belongs to another process.
  FileStoreItem get() const;

  const std::string& store_id() const;
  const std::string& name() const;

 private:
  const std::shared_ptr<FileCacheCore> cache_;
  const std::shared_ptr<CacheEntry> entry_;
};

/// Thread-safe. Belongs to one process: a forked child creates its own. In the child, the parent's
/// cache and its LazyFiles throw Error (kCancelled) and leave the parent's files alone.
class FileCache {
 public:
  /// Creates the folder, removes folders that killed processes left behind, and starts the threads.
  /// Throws Error (kInvalidArgument, kIo, kNotFound, kResourceExhausted).
  explicit FileCache(const FileCacheOptions& options = {});
  /// Finishes reads and writes in progress, stops the threads, and removes the folder. Every
  /// LazyFile::get(), even one that is waiting, then throws Error (kCancelled).
  ~FileCache();
  FileCache(const FileCache&) = delete;
  FileCache& operator=(const FileCache&) = delete;

  /// Starts to fetch `name` from the store `store_id`, unless a fetch was already started.
  /// `open_store` opens that store and must always open the same one. Threads of the cache and
  /// calling threads call it, possibly concurrently, as long as the cache lives, so it must own the
  /// data it needs. LazyFile::get() reports errors of the store.
  std::shared_ptr<LazyFile> get_lazy(const std::string& store_id, const StoreFactory& open_store,
                                     std::string name);

  /// Reads the file from the store in the calling thread. Caches only the open store.
  FileStoreItem get(const std::string& store_id, const StoreFactory& open_store,
                    std::string_view name);

  /// The folder of this cache.
  const std::string& folder() const;
  FileCacheUsage usage() const;

  /// Waits until no fetch can proceed before a file is released: each has ended or waits for room.
  /// For tests and benchmarks.
  void wait_until_settled() const;

 private:
  std::shared_ptr<FileCacheCore> core_;
};

}  // namespace energon
