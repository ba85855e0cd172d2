#include "io/prepare/row_numbers.h"

namespace energon {

RowCounts RowNumbers::take(std::int64_t shard, const RowCounts& counts) {
  RowCounts before;
  {
    const MutexLock lock(mutex_);
    while (next_ != shard) {
      changed_.wait(mutex_);
    }
    ++next_;
    before = before_;
    before_ = {.samples = before.samples + counts.samples, .parts = before.parts + counts.parts};
  }
  changed_.notify_all();
  return before;
}

}  // namespace energon
