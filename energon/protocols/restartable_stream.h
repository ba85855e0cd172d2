// A worker object that runs one pipeline of a dataset's, and goes on where another worker stopped.
//
// The job has as many shards of the data as workers, each with its own pipeline and position. A new
// run begins with worker 0 again, so the shards are rotated: worker w goes on with the shard whose
// turn it is then. The number of workers must stay; RestartableRank has no such limit.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/protocols/restartable.h"
#include "energon/stage/dataset.h"
#include "energon/stage/pipeline.h"

namespace energon {

/// What a state of another number of workers is taken for.
enum class OtherWorkers : std::uint8_t {
  kRefuse,  ///< an Error with both numbers
  kReset,   ///< the start, with a warning
};

/// Restartable. For one thread at a time; moved-from objects must not be used.
class RestartableStream {
 public:
  /// What `make_pipeline` gives for the worker of `context`, and after a load for another one.
  RestartableStream(const PipelineContext& context, PipelineFactory make_pipeline,
                    OtherWorkers other_workers = OtherWorkers::kRefuse);

  /// Throws what the pipeline throws.
  std::optional<Sample> next();

  /// {"samples_streamed": of the shard, ever, "shard_index", "epoch_ended", "position": State,
  /// "dataset": digests of the configuration of shard 0}.
  StateDict state_dict() const;
  /// A part from deaggregate_state_dict(), or one from state_dict(); an empty one is the start.
  /// Throws Error (kMismatch, kCorruptData); kMismatch, if strict, also if the part has digests of
  /// another configuration.
  void load_state_dict(const StateDict& state, Strictness strictness);
  /// {"__version__": 1, "all_worker_states": by shard, "dataset": configuration of shard 0}. Throws
  /// Error (kMismatch) with the shards that are missing, there twice, or of another configuration.
  StateDict aggregate_state_dict(std::span<const StateDict> states) const;
  /// Worker w gets shard (w + first with the fewest samples) mod workers. Throws Error (kMismatch):
  /// with both numbers, for another number of workers; if strict, with all differences of the
  /// configuration; for other keys, with their names.
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
  mutable std::optional<StateDict> digests_;  // of the configuration of shard 0; made when asked

  int shard_ = 0;
  std::unique_ptr<Dataset> pipeline_;
  std::int64_t samples_streamed_ = 0;  // of the shard, ever
  bool epoch_ended_ = false;
};

}  // namespace energon
