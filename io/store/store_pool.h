// A pool of open file stores for many threads.

#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/concurrency.h"
#include "io/store/file_store.h"

namespace energon {

/// Opens a new store on each call. Called in any thread.
using StoreFactory = std::function<std::unique_ptr<FileStore>()>;

/// One thread at a time uses a store. The pool keeps as many stores per `store_id` as were ever in
/// use at once. Thread-safe.
class StorePool {
 public:
  /// Calls get(`name`) on a store `store_id`: an idle one, or else a new one. Throws what the store
  /// or the factory throws, and Error (kInvalidArgument) if the factory returns null.
  FileStoreItem get(const std::string& store_id, const StoreFactory& open_store,
                    std::string_view name);

 private:
  class Lease;
  using Stores = std::list<std::unique_ptr<FileStore>>;

  Mutex mutex_;
  std::unordered_map<std::string, Stores> idle_ ENERGON_GUARDED_BY(mutex_);
};

}  // namespace energon
