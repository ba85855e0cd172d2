#include "io/store/file_cache.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/error.h"
#include "io/store/file_cache_core.h"

namespace energon {
namespace {

// In a forked child the threads are not there, and the mutex and the condition variables are as the
// parent had them: to destroy those can wait for ever. So they stay.
void keep_for_ever(std::shared_ptr<FileCacheCore> core) {
  static Mutex mutex;
  static auto* const kept ENERGON_PT_GUARDED_BY(mutex) =
      new std::vector<std::shared_ptr<FileCacheCore>>();
  const MutexLock lock(mutex);
  kept->push_back(std::move(core));
}

}  // namespace

void validate(const FileCacheOptions& options) {
  constexpr int kMaxThreads = 1024;  // more are a mistake
  if (options.threads < 1 || options.threads > kMaxThreads) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("FileCacheOptions::threads is {}, it must be from 1 to {}",
                            options.threads, kMaxThreads));
  }
  if (options.max_bytes < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "FileCacheOptions::max_bytes is 0, it must be at least 1");
  }
  if (options.max_files < 1) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("FileCacheOptions::max_files is {}, it must be at least 1", options.max_files));
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
