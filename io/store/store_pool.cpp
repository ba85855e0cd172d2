#include "io/store/store_pool.h"

#include "io/error.h"

namespace energon {

/// Takes a store out of the pool for one use; giving it back allocates nothing, so cannot fail.
class StorePool::Lease {
 public:
  Lease(StorePool& pool, const std::string& store_id, const StoreFactory& open_store)
      : mutex_(pool.mutex_) {
    {
      const std::lock_guard lock(mutex_);
      idle_ = &pool.idle_[store_id];
      if (!idle_->empty()) {
        store_.splice(store_.begin(), *idle_, idle_->begin());
        return;
      }
    }
    store_.push_back(open_store());
    if (store_.front() == nullptr) {
      throw Error(ErrorCode::kInvalidArgument, "the function that opens a file store gave none",
                  {.path = store_id});
    }
  }
  // Also after an error: a name that is not there does a store no harm.
  ~Lease() {
    const std::lock_guard lock(mutex_);
    idle_->splice(idle_->begin(), store_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  FileStore& store() { return *store_.front(); }

 private:
  std::mutex& mutex_;
  Stores* idle_ = nullptr;  // a map's elements stay where they are
  Stores store_;            // one
};

FileStoreItem StorePool::get(const std::string& store_id, const StoreFactory& open_store,
                             std::string_view name) {
  Lease lease(*this, store_id, open_store);
  return lease.store().get(name);
}

}  // namespace energon
