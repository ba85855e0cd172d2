// Open file stores for many threads.

#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/store/file_store.h"

namespace energon {

/// Opens a store, each time a new one. Called in any thread.
using StoreFactory = std::function<std::unique_ptr<FileStore>()>;

/// A store is used by one thread at a time. There are as many of one kind as were ever used at
/// once. Thread-safe.
class StorePool {
 public:
  /// get(`name`) of a store `store_id`: an idle one, or else a new one. Throws what the store or
  /// the factory throws, and Error (kInvalidArgument) if the factory gives none.
  FileStoreItem get(const std::string& store_id, const StoreFactory& open_store,
                    std::string_view name);

 private:
  class Lease;
  using Stores = std::list<std::unique_ptr<FileStore>>;

  std::mutex mutex_;
  std::unordered_map<std::string, Stores> idle_;  // guarded by mutex_
};

}  // namespace energon
