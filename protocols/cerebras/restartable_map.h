// A worker object for samples with access by index, in one global order.
//
// The batches of the job form one sequence, a function of the options alone, and workers take them
// in turn. So a position is one number, the samples streamed, and a job can continue on any number
// of ranks and workers, and with another batch size. The order is that of Cerebras' map-style
// datasets; the permutations are torch's.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocols/cerebras/restartable.h"
#include "protocols/indexed_source.h"

namespace energon {

struct RestartableMapOptions {
  std::int64_t samples = 0;     ///< in the dataset: at least 1, below 2^32
  std::int64_t batch_size = 1;  ///< samples in one worker's batch, at least 1
  /// Number of samples in an epoch. If it is smaller than `samples`, the rest is left out; if
  /// larger, the data repeats. Unset means all samples once.
  std::optional<std::int64_t> num_samples = std::nullopt;
  /// Seed of a random order: pass p over the data, counted over all epochs, uses seed + p. Unset
  /// means index order.
  std::optional<std::uint32_t> shuffle_seed = std::nullopt;
  /// If true, every batch is full; samples left at the end of an epoch are batched with samples of
  /// the next. If false, the last batch of an epoch may be smaller.
  bool drop_last = true;
  /// If false, next() reports the end of each epoch.
  bool repeat = true;
  /// Number of samples to skip at the start of this run, at least 1. They follow the loaded
  /// position, if a state was loaded; otherwise they are the first ones.
  std::optional<std::int64_t> skip_samples = std::nullopt;
};

/// Restartable. For one thread at a time; moved-from objects must not be used.
class RestartableMap {
 public:
  /// Throws Error (kInvalidArgument).
  RestartableMap(const WorkerIdentity& worker, const RestartableMapOptions& options,
                 FetchFunction fetch);

  std::optional<Sample> next();

  /// {"samples_streamed": by this worker in this run, "previous_samples_streamed": by all workers
  /// before this run}.
  StateDict state_dict() const;
  /// Takes a state from aggregate_state_dict(). Throws Error (kMismatch): for another version; if
  /// strict, for a missing position and for settings that are missing, unknown or different,
  /// listing all of them (a seed counts only if the order is random). If not strict, a missing
  /// position means the start, with a warning.
  void load_state_dict(const StateDict& state, Strictness strictness);
  /// {"__version__": 1, "samples_streamed": by all workers over all runs, "dataset": settings}.
  /// Throws Error (kMismatch).
  StateDict aggregate_state_dict(std::span<const StateDict> states) const;
  /// Returns the same state for each worker.
  StateDict deaggregate_state_dict(const StateDict& state, Strictness strictness) const;

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  StateDict settings() const;
  void check_settings(const StateDict& state) const;
  void begin_at(std::int64_t position);
  std::int64_t batch_end(std::int64_t begin) const;
  std::int64_t epoch_samples() const { return options_.num_samples.value_or(options_.samples); }
  std::int64_t index_at(std::int64_t position);

  WorkerIdentity worker_;
  RestartableMapOptions options_;
  FetchFunction fetch_;
  std::vector<std::string> warnings_;

  std::int64_t begin_ = 0;             // position in the job's stream where this run began
  std::int64_t position_ = 0;          // start of batch number batch_ of the job
  std::int64_t batch_ = 0;             // number of the next batch to consider in this run
  std::int64_t epoch_ = 0;             // being delivered; used if epoch ends are reported
  std::int64_t samples_streamed_ = 0;  // by this worker in this run

  std::vector<std::int64_t> order_;  // of pass order_pass_
  std::optional<std::int64_t> order_pass_;
};

}  // namespace energon
