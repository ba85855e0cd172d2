// State shared by a FileCache, its threads and its LazyFiles. Private to io.
//
// One thread runs a fetch, from kReading on:
//
//   kRequested -> kReading -> kInMemory ------------------> kOnDisk
//                    |            |  waits for room, writes
//                    v            v
//                 kFailed     kUncached  (too large, or could not be written)
//
// When its last LazyFile is destroyed, an entry leaves the table at once. If the file is on disk,
// the LazyFile deletes it and releases its room; otherwise the fetching thread does so when it
// notices.

#pragma once

#include <cstdint>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "io/concurrency.h"
#include "io/index/cache_folder.h"
#include "io/store/file_cache.h"
#include "io/store/file_store.h"
#include "io/store/store_pool.h"

namespace energon {

enum class CachePhase { kRequested, kReading, kInMemory, kOnDisk, kUncached, kFailed };

/// One file of one store.
struct CacheEntry {
  const std::string store_id;
  const std::string name;
  const StoreFactory open_store;

  // Guarded by the mutex of the cache. From kInMemory on, `path`, `size_bytes` and all of `item`
  // but its bytes are constant.
  CachePhase phase = CachePhase::kRequested;
  std::int64_t references = 0;                                    // number of LazyFiles
  std::list<std::shared_ptr<CacheEntry>>::iterator request = {};  // while kRequested
  std::string path = {};                                          // in the folder of the cache
  FileStoreItem item = {};                                        // has bytes only while kInMemory
  std::uint64_t size_bytes = 0;                                   // from kInMemory on
  std::exception_ptr error = {};                                  // if kFailed
};

class FileCacheCore {
 public:
  using Entry = std::shared_ptr<CacheEntry>;

  /// Creates the folder and starts the threads.
  explicit FileCacheCore(const FileCacheOptions& options);
  FileCacheCore(const FileCacheCore&) = delete;
  FileCacheCore& operator=(const FileCacheCore&) = delete;

  /// Stops the threads and removes the folder. Called once, before the last reference is released.
  void close() noexcept;

  bool is_of_this_process() const noexcept;
  /// Throws Error (kCancelled) in a forked child.
  void check_process() const;

  /// Returns the entry with one more reference, which the caller must release with
  /// drop_reference().
  Entry request(const std::string& store_id, const StoreFactory& open_store, std::string name);
  void drop_reference(const Entry& entry) noexcept;

  FileStoreItem get(const CacheEntry& entry);
  FileStoreItem read_store(const std::string& store_id, const StoreFactory& open_store,
                           std::string_view name);

  const std::string& folder() const { return folder_path_; }
  FileCacheUsage usage() const;
  void wait_until_settled() const;

 private:
  // These release the mutex temporarily.
  void fetch(const Entry& entry) ENERGON_REQUIRES(mutex_);
  bool read(CacheEntry& entry) ENERGON_REQUIRES(mutex_);
  bool wait_for_room(CacheEntry& entry) ENERGON_REQUIRES(mutex_);
  void write(CacheEntry& entry) ENERGON_REQUIRES(mutex_);

  bool is_unwanted(const CacheEntry& entry) const ENERGON_REQUIRES(mutex_);
  bool fits(const CacheEntry& entry) const ENERGON_REQUIRES(mutex_);
  void give_room_back(const CacheEntry& entry) ENERGON_REQUIRES(mutex_);
  bool is_settled() const ENERGON_REQUIRES(mutex_);

  void serve();  // a thread

  const FileCacheOptions options_;
  const OwnerProcess owner_;
  std::optional<CacheFolder> folder_;  // until close()
  const std::string folder_path_;
  StorePool stores_;

  mutable Mutex mutex_;
  Condition work_;             // there is a request
  Condition done_;             // a read has ended
  Condition room_;             // there may be room, or another fetch is first in line
  mutable Condition settled_;  // is_settled() may have become true

  bool is_closed_ ENERGON_GUARDED_BY(mutex_) = false;
  // Keys view the entry.
  std::map<std::pair<std::string_view, std::string_view>, Entry> entries_
      ENERGON_GUARDED_BY(mutex_);
  std::list<Entry> requests_ ENERGON_GUARDED_BY(mutex_);  // in request order
  // For room, in order; at most one per thread.
  std::vector<const CacheEntry*> waiting_ ENERGON_GUARDED_BY(mutex_);
  int busy_ ENERGON_GUARDED_BY(mutex_) = 0;  // threads that read or write
  std::int64_t next_file_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::uint64_t used_bytes_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::int64_t used_files_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::int64_t failed_writes_ ENERGON_GUARDED_BY(mutex_) = 0;

  std::vector<std::thread> threads_;  // started last; joined by close()
};

}  // namespace energon
