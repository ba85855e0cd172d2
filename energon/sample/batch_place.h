// The place of a batch within the job.

#pragma once

#include <cstdint>

namespace energon {

/// A value type. The logical shards of a job take turns; each turn is one batch.
struct BatchPlace {
  int logical_shard = 0;   ///< logical shard that made the batch
  std::int64_t epoch = 0;  ///< epoch of the batch
  std::int64_t turn = 0;   ///< batches of the logical shard before it in that epoch

  /// The number of this micro batch in its epoch, in a job of `logical_shards` logical shards. It
  /// counts over the whole job as if all logical shards took turns until the end, so it is the same
  /// on any layout with as many logical shards. Numbers of logical shards that have ended are left
  /// out.
  std::int64_t micro_batch(int logical_shards) const {
    return turn * logical_shards + logical_shard;
  }

  bool operator==(const BatchPlace&) const = default;
};

}  // namespace energon
