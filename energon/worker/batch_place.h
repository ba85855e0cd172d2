// Which batch of the job a batch is.

#pragma once

#include <cstdint>

namespace energon {

/// A value. The micro batch of the epoch, counted over the whole job as if all logical shards took
/// turns to the end, is turn * logical shards + logical_shard.
struct BatchPlace {
  int logical_shard = 0;   ///< that made it
  std::int64_t epoch = 0;  ///< that it belongs to
  std::int64_t turn = 0;   ///< batches of the logical shard before it, in that epoch

  bool operator==(const BatchPlace&) const = default;
};

}  // namespace energon
