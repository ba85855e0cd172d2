#include "io/store/store_pool.h"

#include "io/error.h"

namespace energon {

/// Takes a store out of the pool for one use; giving it back allocates nothing, so cannot fail.
class StorePool::Lease {
 public:
  Lease(StorePool& pool, const std::string& store_id, const StoreFactory& open_store)
      : pool_(pool) {
    take_idle(store_id);
    if (!store_.empty()) {
      return;
    }
    store_.push_back(open_store());
    if (store_.front() == nullptr) {
      throw Error(ErrorCode::kInvalidArgument, "the function that opens a file store gave none",
                  {.path = store_id});
    }
  }
  // Also after an error: a name that is not there does a store no harm.
  ~Lease() { give_back(); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  FileStore& store() { return *store_.front(); }

 private:
  void take_idle(const std::string& store_id) {
    const MutexLock lock(pool_.mutex_);
    idle_ = &pool_.idle_[store_id];
    if (!idle_->empty()) {
      store_.splice(store_.begin(), *idle_, idle_->begin());
    }
  }

  void give_back() {
    const MutexLock lock(pool_.mutex_);
    idle_->splice(idle_->begin(), store_);
  }

  StorePool& pool_;
  // A map's elements stay where they are.
  Stores* idle_ ENERGON_PT_GUARDED_BY(pool_.mutex_) = nullptr;
  Stores store_;  // one
};

FileStoreItem StorePool::get(const std::string& store_id, const StoreFactory& open_store,
                             std::string_view name) {
  Lease lease(*this, store_id, open_store);
  return lease.store().get(name);
}

}  // namespace energon
