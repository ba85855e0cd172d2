// The place of a batch within the job.

#pragma once

#include <cstdint>

namespace energon {

/// A value type. The index of the micro batch in the epoch is turn * (number of logical shards) +
/// logical_shard. It counts over the whole job as if all logical shards took turns until the end.
struct BatchPlace {
  int logical_shard = 0;   ///< logical shard that made the batch
  std::int64_t epoch = 0;  ///< epoch of the batch
  std::int64_t turn = 0;   ///< batches of the logical shard before it in that epoch

  bool operator==(const BatchPlace&) const = default;
};

}  // namespace energon
