// A worker object that runs one pipeline of a dataset and can continue where another worker
// stopped.
//
// The job has as many shards of the data as workers, each with its own pipeline and position. A new
// run starts with worker 0 again, so shards rotate among the workers: worker w continues with the
// next shard in turn. The number of workers must stay the same; RestartableRank has no such limit.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/stage/dataset.h"
#include "protocols/cerebras/restartable.h"

namespace energon {

/// What to do with a state from another number of workers.
enum class OtherWorkers : std::uint8_t {
  kRefuse,  ///< throw an Error with both numbers
  kReset,   ///< begin at the start of the data, with a warning
};

/// Restartable. For one thread at a time; moved-from objects must not be used.
class RestartableStream {
 public:
  /// Runs the pipeline that `make_pipeline` makes for the worker of `context`; after a load,
  /// perhaps that for another worker.
  RestartableStream(const PipelineContext& context, PipelineFactory make_pipeline,
                    OtherWorkers other_workers = OtherWorkers::kRefuse);

  /// Throws what the pipeline throws.
  std::optional<Sample> next();

  /// {"samples_streamed": samples of the shard, over all runs, "shard_index", "epoch_ended",
  /// "position": State, "dataset": digests of the configuration of shard 0}.
  StateDict state_dict() const;
  /// Loads a part from deaggregate_state_dict() or a state from state_dict(). With
  /// OtherWorkers::kReset, an empty part means the start. Throws Error (kMismatch, kCorruptData);
  /// if strict, kMismatch also if the part has digests of another configuration.
  void load_state_dict(const StateDict& state, Strictness strictness);
  /// {"__version__": 1, "all_worker_states": by shard, "dataset": configuration of shard 0}. Throws
  /// Error (kMismatch) with the shards that are missing, duplicate, or of another configuration.
  StateDict aggregate_state_dict(std::span<const StateDict> states) const;
  /// Worker w gets shard (w + s) mod workers, where s is the first shard with the fewest samples.
  /// Throws Error (kMismatch): for another number of workers, with both numbers; if strict, for
  /// another configuration, with all differences; for missing or unknown keys, with their names.
  StateDict deaggregate_state_dict(const StateDict& state, Strictness strictness) const;

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::unique_ptr<Dataset> pipeline_of(int shard) const;
  const StateDict& digests() const;

  PipelineContext context_;
  PipelineFactory make_pipeline_;
  OtherWorkers other_workers_;
  WorkerIdentity worker_;
  std::vector<std::string> warnings_;
  mutable std::optional<StateDict> digests_;  // of the configuration of shard 0; made when needed

  int shard_ = 0;
  std::unique_ptr<Dataset> pipeline_;
  std::int64_t samples_streamed_ = 0;  // of the shard, over all runs
  bool epoch_ended_ = false;
};

}  // namespace energon
