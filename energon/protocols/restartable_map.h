// A worker object for samples that can be had by their number, in one global order.
//
// The batches of the job form one sequence, a function of the options alone; batch b of it goes to
// the worker whose turn it is. So a position is one number, the samples streamed, and it may be
// continued on any number of ranks and workers, and with another batch size. The order is Cerebras'
// map-style one; the permutations are torch's.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/distributed/indexed_source.h"
#include "energon/protocols/restartable.h"

namespace energon {

struct RestartableMapOptions {
  std::int64_t samples = 0;     ///< of the dataset: at least 1, below 2^32
  std::int64_t batch_size = 1;  ///< of one worker's batch, at least 1
  /// Samples of an epoch; fewer leave the rest out, more go through the data again. Absent: all.
  std::optional<std::int64_t> num_samples = std::nullopt;
  /// A random order: pass number p over the data, counted over all epochs, has that of seed + p.
  std::optional<std::uint32_t> shuffle_seed = std::nullopt;
  /// True: every batch is whole, and what is left of an epoch opens the next one. False: the last
  /// batch of an epoch may be smaller.
  bool drop_last = true;
  /// False: next() reports the end of each epoch.
  bool repeat = true;
  /// Samples to pass over at the beginning of this run, at least 1: those after a position that was
  /// loaded, else the first ones.
  std::optional<std::int64_t> skip_samples = std::nullopt;
};

/// Restartable. For one thread at a time; moved-from objects must not be used.
class RestartableMap {
 public:
  /// Throws Error (kInvalidArgument).
  RestartableMap(const WorkerIdentity& worker, const RestartableMapOptions& options,
                 FetchFunction fetch);

  std::optional<Sample> next();

  /// {"samples_streamed": by this worker in this run, "previous_samples_streamed": by all before}.
  StateDict state_dict() const;
  /// Of version 1 as from aggregate_state_dict(), or 0: {"samples_streamed", "seed"}. Throws Error
  /// (kMismatch): for an unknown version; if strict, for a missing position and with all settings
  /// that are missing, unknown or others (a seed counts only if the order is random). Else a
  /// missing position is the start, with a warning.
  void load_state_dict(const StateDict& state, Strictness strictness);
  /// {"__version__": 1, "samples_streamed": by all ever, "dataset": settings}. Throws Error
  /// (kMismatch).
  StateDict aggregate_state_dict(std::span<const StateDict> states) const;
  /// The same for each worker.
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

  std::int64_t begin_ = 0;             // samples of the job's stream before this run
  std::int64_t position_ = 0;          // of the next batch of the job that is to be looked at
  std::int64_t batch_ = 0;             // its number in this run
  std::int64_t epoch_ = 0;             // that is being delivered, if the ends are reported
  std::int64_t samples_streamed_ = 0;  // by this worker in this run

  std::vector<std::int64_t> order_;  // of pass order_pass_
  std::int64_t order_pass_ = -1;
};

}  // namespace energon
