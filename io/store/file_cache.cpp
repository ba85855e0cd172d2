#include "io/store/file_cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "io/file.h"
#include "io/shared_folder.h"
#include "io/store/file_store.h"

namespace energon {

namespace fs = std::filesystem;

// --- The folder of a cache ---
//
// A folder of temporary files that is removed with its process or, if the process was killed, by
// another process later.
//
// The folder is `energon-cache-<random digits>`, accessible to its owner only. It holds a file
// `lock` that is locked while the process lives. A process that creates such a folder removes
// sibling folders that no process holds; on a file system without locks, those unchanged for
// kAbandonedAfter (io/shared_folder.h).

namespace {

class CacheFolder {
 public:
  /// Creates `parent_folder` if it does not exist. Throws Error (kIo, kNotFound).
  explicit CacheFolder(const std::string& parent_folder);
  /// Removes the folder, unless in a forked child.
  ~CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  /// The absolute path of the folder.
  const std::string& path() const { return path_; }

 private:
  const OwnerProcess owner_;
  std::string path_;
  UniqueFd lock_;
};

constexpr std::string_view kPrefix = "energon-cache-";
constexpr const char* kLockName = "lock";

// Whether the locked file is still the one in the folder. A folder is renamed before it is removed.
bool is_in_place(int lock, const std::string& folder) {
  struct stat held {};
  struct stat named {};
  return ::fstat(lock, &held) == 0 && ::stat((folder + "/" + kLockName).c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

// Decided by the lock or, without locks, by the time since a file was added or removed. A live
// cache whose folder is removed reads from its stores.
bool is_left_behind(int lock, const std::string& folder) {
  const Locked locked = try_lock(lock);
  struct stat status {};
  if (locked != Locked::kUnsupported || ::stat(folder.c_str(), &status) != 0) {
    return locked == Locked::kYes;
  }
  const auto changed = std::chrono::seconds(status.st_mtim.tv_sec);
  const auto now = file_system_time(folder_of(folder));
  return now && *now - changed >= kAbandonedAfter;
}

// Other users may write to the parent, too: ignore links and their folders.
void remove_if_left_behind(const std::string& path) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  if (!folder.valid() || ::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid()) {
    return;
  }
  // A folder without its lock file is being created or removed. By creating the file, we notify its
  // creator that it is too late.
  const UniqueFd lock(
      ::openat(folder.get(), kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid() || !is_left_behind(lock.get(), path)) {
    return;
  }
  // Renamed first, because a live creator could lock another file in it while it is emptied.
  const std::string gone = path + "-gone";
  if (::rename(path.c_str(), gone.c_str()) == 0) {
    std::error_code ignored;  // the next cache tries again
    fs::remove_all(gone, ignored);
  }
}

void remove_left_behind(const std::string& parent) {
  std::error_code error;
  fs::directory_iterator entry(parent, error);
  while (!error && entry != fs::directory_iterator()) {
    if (entry->path().filename().string().starts_with(kPrefix)) {
      remove_if_left_behind(entry->path().string());
    }
    entry.increment(error);
  }
}

CacheFolder::CacheFolder(const std::string& parent_folder) {
  std::error_code error;
  const std::string parent = fs::absolute(parent_folder, error).string();
  if (!error) {
    fs::create_directories(parent, error);
  }
  if (error) {
    throw io_error("cannot create the folder for caches", error.value(), {.path = parent_folder});
  }
  remove_left_behind(parent);
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    path_ = fmt::format("{}/{}{}", parent, kPrefix, random_digits());
    if (::mkdir(path_.c_str(), 0700) != 0) {
      throw io_error("cannot create a cache folder; choose another parent folder", errno,
                     {.path = path_});
    }
    lock_.reset(
        ::open((path_ + "/" + kLockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_.valid() && errno != ENOENT) {
      const int failure = errno;
      ::rmdir(path_.c_str());
      throw io_error("cannot create the lock of a cache folder", failure, {.path = path_});
    }
    if (lock_.valid() && try_lock(lock_.get()) != Locked::kNo && is_in_place(lock_.get(), path_)) {
      return;
    }
    // Another process considers the folder abandoned and removes it.
  }
  throw Error(ErrorCode::kIo, "cache folders vanish as soon as they are created", {.path = parent});
}

CacheFolder::~CacheFolder() {
  if (owner_.is_current()) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
}

// --- Files in it ---
//
// Files in the folder of a file cache.

// Writes a new file; returns false on failure. Does not sync: nobody reads the file after
// a crash.
bool write_cached(const std::string& path, ByteView content) noexcept {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return false;
  }
  if (try_write_all(fd.get(), content) != 0) {
    ::unlink(path.c_str());
    return false;
  }
  return true;
}

// The bytes of the file; nullopt if it is not as written, because someone cleaned the folder for
// temporary files.
std::optional<SharedBytes> read_cached(const std::string& path, std::uint64_t size_bytes) {
  try {
    const FileSource file(path);
    if (file.size() == size_bytes) {
      return read_bytes(file, {.offset = 0, .size = size_bytes});
    }
  } catch (const Error&) {  // the store still has it
  }
  return std::nullopt;
}

}  // namespace

// --- The state that a cache, its threads and its files share ---
//
// State shared by a FileCache, its threads and its LazyFiles.
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
  std::uint64_t size_bytes = 0;                                   // set from kInMemory on
  std::exception_ptr error = {};                                  // set if kFailed
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

  void serve();  // body of a thread

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
  // Keys point into the entry.
  std::map<std::pair<std::string_view, std::string_view>, Entry> entries_
      ENERGON_GUARDED_BY(mutex_);
  std::list<Entry> requests_ ENERGON_GUARDED_BY(mutex_);  // in request order
  // Entries that wait for room, in order; at most one per thread.
  std::vector<const CacheEntry*> waiting_ ENERGON_GUARDED_BY(mutex_);
  int busy_ ENERGON_GUARDED_BY(mutex_) = 0;  // threads that read or write
  std::int64_t next_file_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::uint64_t used_bytes_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::int64_t used_files_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::int64_t failed_writes_ ENERGON_GUARDED_BY(mutex_) = 0;

  std::vector<std::thread> threads_;  // started last; joined by close()
};

namespace {

std::string parent_folder(const FileCacheOptions& options) {
  if (options.parent_folder) {
    return *options.parent_folder;
  }
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) {
    throw io_error("cannot use the system's temporary folder; set TMPDIR or parent_folder",
                   error.value());
  }
  return folder.string();
}

// Threads started during its lifetime receive no signals, which belong to the user's threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_ = {};
};

// An Error is copied for each catch, because Error::with() modifies it. Other exceptions are
// shared.
[[noreturn]] void rethrow(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    throw Error(error);
  }
}

[[noreturn]] void refuse_closed() {
  throw Error(ErrorCode::kCancelled,
              "the file cache is gone; a lazy file must be used before its pipeline ends");
}

}  // namespace

FileCacheCore::FileCacheCore(const FileCacheOptions& options)
    : options_(options),
      folder_(std::in_place, parent_folder(options)),
      folder_path_(folder_->path()) {
  waiting_.reserve(static_cast<std::size_t>(options.threads));
  threads_.reserve(static_cast<std::size_t>(options.threads));
  const SignalsBlocked blocked;
  try {
    for (int i = 0; i < options.threads; ++i) {
      threads_.emplace_back([this] { serve(); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size();
    close();
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("cannot start thread {} of {} of a file cache: {}; lower "
                            "FileCacheOptions::threads",
                            started + 1, options.threads, error.what()));
  } catch (...) {
    close();
    throw;
  }
}

void FileCacheCore::close() noexcept {
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
  }
  work_.notify_all();
  done_.notify_all();
  room_.notify_all();
  settled_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
  folder_.reset();
}

bool FileCacheCore::is_of_this_process() const noexcept { return owner_.is_current(); }

void FileCacheCore::check_process() const {
  if (!is_of_this_process()) {
    throw Error(ErrorCode::kCancelled,
                "a file cache is used after fork(); each process must create its own");
  }
}

FileCacheCore::Entry FileCacheCore::request(const std::string& store_id,
                                            const StoreFactory& open_store, std::string name) {
  check_process();
  // Allocations may fail or take long, so they come before the lock.
  auto entry = std::make_shared<CacheEntry>(
      CacheEntry{.store_id = store_id, .name = std::move(name), .open_store = open_store});
  std::list<Entry> request{entry};
  const MutexLock lock(mutex_);
  if (is_closed_) {
    refuse_closed();
  }
  const auto [place, is_new] = entries_.try_emplace({entry->store_id, entry->name}, entry);
  if (is_new) {
    entry->request = request.begin();
    requests_.splice(requests_.end(), request);
    work_.notify_one();
  } else {
    entry = place->second;
  }
  ++entry->references;
  return entry;
}

void FileCacheCore::drop_reference(const Entry& entry) noexcept {
  if (!is_of_this_process()) {
    return;
  }
  const MutexLock lock(mutex_);
  if (--entry->references > 0) {
    return;
  }
  entries_.erase({entry->store_id, entry->name});
  if (is_closed_) {
    return;  // close() removes the whole folder
  }
  switch (entry->phase) {
    case CachePhase::kRequested:
      requests_.erase(entry->request);
      break;
    case CachePhase::kOnDisk: {
      const MutexUnlock unlocked(mutex_);
      ::unlink(entry->path.c_str());
    }
      give_room_back(*entry);
      break;
    case CachePhase::kInMemory:
      room_.notify_all();  // its thread waits for room, or is writing and checks afterwards
      break;
    case CachePhase::kReading:
    case CachePhase::kUncached:
    case CachePhase::kFailed:
      break;
  }
  settled_.notify_all();
}

FileStoreItem FileCacheCore::get(const CacheEntry& entry) {
  check_process();
  MutexLock lock(mutex_);
  while (!is_closed_ && entry.phase == CachePhase::kReading) {
    done_.wait(mutex_);
  }
  if (is_closed_) {
    refuse_closed();
  }
  if (entry.phase == CachePhase::kFailed) {
    const std::exception_ptr error = entry.error;
    lock.unlock();
    rethrow(error);
  }
  if (entry.phase == CachePhase::kInMemory) {
    return entry.item;
  }
  const bool is_on_disk = entry.phase == CachePhase::kOnDisk;
  lock.unlock();
  if (is_on_disk) {
    if (auto bytes = read_cached(entry.path, entry.size_bytes)) {
      FileStoreItem item = entry.item;
      item.bytes = std::move(*bytes);
      return item;
    }
  }
  return read_store(entry.store_id, entry.open_store, entry.name);
}

FileStoreItem FileCacheCore::read_store(const std::string& store_id, const StoreFactory& open_store,
                                        std::string_view name) {
  check_process();
  return stores_.get(store_id, open_store, name);
}

FileCacheUsage FileCacheCore::usage() const {
  check_process();
  const MutexLock lock(mutex_);
  return {.bytes = used_bytes_,
          .files = used_files_,
          .requested = static_cast<std::int64_t>(requests_.size()),
          .waiting = static_cast<std::int64_t>(waiting_.size()),
          .failed_writes = failed_writes_};
}

void FileCacheCore::wait_until_settled() const {
  check_process();
  const MutexLock lock(mutex_);
  while (!is_closed_ && !is_settled()) {
    settled_.wait(mutex_);
  }
}

// A thread that was woken but is not running yet is counted by the event that woke it.
bool FileCacheCore::is_settled() const {
  const bool all_wait_for_room = waiting_.size() == static_cast<std::size_t>(options_.threads);
  return busy_ == 0 && (requests_.empty() || all_wait_for_room) &&
         std::ranges::none_of(waiting_,
                              [](const CacheEntry* entry) { return entry->references == 0; }) &&
         (waiting_.empty() || !fits(*waiting_.front()));
}

void FileCacheCore::serve() {
  const MutexLock lock(mutex_);
  while (true) {
    while (!is_closed_ && requests_.empty()) {
      work_.wait(mutex_);
    }
    if (is_closed_) {
      return;
    }
    Entry entry = std::move(requests_.front());
    requests_.pop_front();
    ++busy_;
    fetch(entry);
    --busy_;
    settled_.notify_all();
    // This may be the last reference; releasing it destroys a function of the user.
    const MutexUnlock unlocked(mutex_);
    entry.reset();
  }
}

void FileCacheCore::fetch(const Entry& entry) {
  if (read(*entry) && wait_for_room(*entry)) {
    write(*entry);
  }
}

// Returns true if the file is in memory and should be written.
bool FileCacheCore::read(CacheEntry& entry) {
  entry.phase = CachePhase::kReading;
  const std::int64_t number = next_file_++;
  FileStoreItem item;
  std::string path;
  std::exception_ptr error;
  {
    const MutexUnlock unlocked(mutex_);
    try {
      item = read_store(entry.store_id, entry.open_store, entry.name);
      path = fmt::format("{}/{}", folder_path_, number);
    } catch (...) {
      error = std::current_exception();
    }
  }
  done_.notify_all();
  if (error != nullptr) {
    entry.error = std::move(error);
    entry.phase = CachePhase::kFailed;
    return false;
  }
  entry.path = std::move(path);
  entry.size_bytes = item.bytes.size();
  entry.item = std::move(item);
  entry.phase = CachePhase::kInMemory;
  return true;
}

// Returns false if there will be no room: the file is too large or no longer needed, or the cache
// ends.
bool FileCacheCore::wait_for_room(CacheEntry& entry) {
  if (entry.size_bytes > options_.max_bytes) {
    entry.phase = CachePhase::kUncached;
    entry.item.bytes = {};
    return false;
  }
  waiting_.push_back(&entry);  // does not allocate: capacity is reserved for each thread
  --busy_;
  settled_.notify_all();
  while (!is_unwanted(entry) && !(waiting_.front() == &entry && fits(entry))) {
    room_.wait(mutex_);
  }
  ++busy_;
  std::erase(waiting_, &entry);
  room_.notify_all();  // another fetch is first in line now
  if (is_unwanted(entry)) {
    return false;
  }
  used_bytes_ += entry.size_bytes;
  ++used_files_;
  return true;
}

void FileCacheCore::write(CacheEntry& entry) {
  const SharedBytes bytes = entry.item.bytes;
  bool is_written = false;
  {
    const MutexUnlock unlocked(mutex_);
    is_written = write_cached(entry.path, bytes.view);
  }
  entry.item.bytes = {};
  if (is_written && entry.references > 0) {
    entry.phase = CachePhase::kOnDisk;
    return;
  }
  entry.phase = CachePhase::kUncached;
  if (is_written) {
    const MutexUnlock unlocked(mutex_);
    ::unlink(entry.path.c_str());
  } else {
    ++failed_writes_;
  }
  give_room_back(entry);
}

bool FileCacheCore::is_unwanted(const CacheEntry& entry) const {
  return is_closed_ || entry.references == 0;
}

bool FileCacheCore::fits(const CacheEntry& entry) const {
  return entry.size_bytes <= options_.max_bytes - used_bytes_ && used_files_ < options_.max_files;
}

void FileCacheCore::give_room_back(const CacheEntry& entry) {
  used_bytes_ -= entry.size_bytes;
  --used_files_;
  room_.notify_all();
}

// --- The cache ---

namespace {

// In a forked child, the threads do not exist, and the mutex and condition variables are in the
// parent's state: destroying them may block forever, so they are leaked.
void keep_for_ever(std::shared_ptr<FileCacheCore> core) {
  static Mutex mutex;
  static auto* const kept ENERGON_PT_GUARDED_BY(mutex) =
      new std::vector<std::shared_ptr<FileCacheCore>>();
  const MutexLock lock(mutex);
  kept->push_back(std::move(core));
}

}  // namespace

void validate(const FileCacheOptions& options) {
  constexpr int kMaxThreads = 1024;  // more must be a mistake
  if (options.threads < 1 || options.threads > kMaxThreads) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("FileCacheOptions::threads is {}, expected 1 to {}", options.threads,
                            kMaxThreads));
  }
  if (options.max_bytes < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "FileCacheOptions::max_bytes is 0, expected at least 1");
  }
  if (options.max_files < 1) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("FileCacheOptions::max_files is {}, expected at least 1", options.max_files));
  }
}

LazyFile::LazyFile(std::shared_ptr<FileCacheCore> cache, std::shared_ptr<CacheEntry> entry)
    : cache_(std::move(cache)), entry_(std::move(entry)) {}

LazyFile::~LazyFile() { cache_->drop_reference(entry_); }

FileStoreItem LazyFile::get() const { return cache_->get(*entry_); }

const std::string& LazyFile::store_id() const { return entry_->store_id; }
const std::string& LazyFile::name() const { return entry_->name; }

FileCache::FileCache(const FileCacheOptions& options) {
  validate(options);
  core_ = std::make_shared<FileCacheCore>(options);
}

FileCache::~FileCache() {
  if (core_->is_of_this_process()) {
    core_->close();
  } else {
    keep_for_ever(std::move(core_));
  }
}

std::shared_ptr<LazyFile> FileCache::get_lazy(const std::string& store_id,
                                              const StoreFactory& open_store, std::string name) {
  const std::shared_ptr<CacheEntry> entry = core_->request(store_id, open_store, std::move(name));
  try {
    return std::make_shared<LazyFile>(core_, entry);
  } catch (...) {
    core_->drop_reference(entry);
    throw;
  }
}

FileStoreItem FileCache::get(const std::string& store_id, const StoreFactory& open_store,
                             std::string_view name) {
  return core_->read_store(store_id, open_store, name);
}

const std::string& FileCache::folder() const { return core_->folder(); }
FileCacheUsage FileCache::usage() const { return core_->usage(); }
void FileCache::wait_until_settled() const { core_->wait_until_settled(); }

}  // namespace energon
