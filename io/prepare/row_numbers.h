// Numbers the rows of shards that are scanned in any order. Private to io.

#pragma once

#include <cstdint>

#include "io/concurrency.h"
#include "io/index/sample_index_writer.h"

namespace energon {

/// Thread-safe.
class RowNumbers {
 public:
  /// `first` are the rows before those of shard 0.
  explicit RowNumbers(const RowCounts& first = {}) : before_(first) {}

  /// Returns the number of rows before those of `shard`, which has `counts` rows, as soon as all
  /// earlier shards are counted. Requires: called once for each shard, also for one that failed;
  /// before a thread waits here for a shard, other threads have begun with all earlier ones.
  RowCounts take(std::int64_t shard, const RowCounts& counts);

 private:
  Mutex mutex_;
  Condition changed_;
  std::int64_t next_ ENERGON_GUARDED_BY(mutex_) = 0;
  RowCounts before_ ENERGON_GUARDED_BY(mutex_);
};

}  // namespace energon
