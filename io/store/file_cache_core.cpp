#include "io/store/file_cache_core.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "io/error.h"
#include "io/store/cached_file.h"

namespace energon {
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

// Threads that start during its lifetime receive no signals, which are meant for the user's
// threads.
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

// An Error is copied for each catcher, because Error::with() changes it. Other exceptions are
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
                "a file cache is used after fork(); every process makes its own");
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
      room_.notify_all();  // its thread waits for room, or writes and looks afterwards
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

// A thread that was woken but does not run yet counts by what woke it.
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
    // This may be the last reference, and destroys a function of the user with the entry.
    const MutexUnlock unlocked(mutex_);
    entry.reset();
  }
}

void FileCacheCore::fetch(const Entry& entry) {
  if (read(*entry) && wait_for_room(*entry)) {
    write(*entry);
  }
}

// True if the file is in memory and is to be written.
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

// False if there will be no room: the file is too large, nobody wants it any more, or the cache
// ends.
bool FileCacheCore::wait_for_room(CacheEntry& entry) {
  if (entry.size_bytes > options_.max_bytes) {
    entry.phase = CachePhase::kUncached;
    entry.item.bytes = {};
    return false;
  }
  waiting_.push_back(&entry);  // allocates nothing: there is a place for each thread
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

}  // namespace energon
