#include "energon/loader/sample_restorer.h"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

Sample SampleRestorer::restore(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kLogicalShard, 2, 1);
  const std::int64_t shard = parts.integers[0];
  if (shard >= config_.logical_shard_count()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("restore key names logical shard {}, this job (world size {}, {} workers a "
                    "rank) has {}",
                    shard, config_.world_size, config_.num_workers, config_.logical_shard_count()));
  }
  try {
    auto& pipeline = pipelines_[shard];
    if (!pipeline) {
      const StreamPlace place = place_of(static_cast<int>(shard), config_);
      WorkerConfig config = config_;
      config.rank = place.rank;
      pipeline = make_pipeline_(
          {.config = config, .stream = place.stream, .memory = memory_, .made = made_});
    }
    Sample sample = pipeline->restore_sample(parts.inner[0]);
    made_->end_batch();
    sample.restore_key = key;
    sample.place.reset();
    return sample;
  } catch (...) {
    made_->end_batch();
    throw to_error(std::current_exception(), "the pipeline");
  }
}

}  // namespace energon
