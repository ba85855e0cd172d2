// How many batches an epoch has.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/order/worker_config.h"
#include "energon/stage/dataset.h"

namespace energon {

/// What len() of a dataset or loader is in Energon: the items of one pass over the data, as far as
/// the options tell, whatever functions leave out or add. Packs and groups count as if each had one
/// sample. An endless repetition counts as one pass, and a blend by weight as one pass over each of
/// its datasets. For the pipeline of one logical shard.
std::int64_t nominal_length(const Dataset& pipeline);

/// Both are for all logical shards of a rank.
struct EpochLength {
  /// The number of batches; nullopt if the epoch never ends or the number is not known in advance.
  std::optional<std::int64_t> exact;
  std::int64_t nominal = 0;  ///< nominal_length()
};

/// Makes the pipelines of the rank, without reading. Throws what the factory throws.
EpochLength epoch_length(const PipelineFactory& make_pipeline, const WorkerConfig& config);

}  // namespace energon
