// The loader's own state through the restartable protocol, one part for each rank.
//
// The aggregated state is the state of the job. It can be split for any layout: rescale()
// redistributes the logical shards.

#pragma once

#include <memory>
#include <optional>
#include <span>

#include "energon/checkpoint/rescale.h"
#include "energon/loader/savable_data_loader.h"
#include "protocols/cerebras/restartable.h"

namespace energon {

/// Restartable. For one thread at a time; moved-from objects must not be used.
class RestartableRank {
 public:
  /// Shares ownership of `loader`. `uneven` is the policy for states of jobs whose logical shards
  /// cannot be divided evenly among the ranks of this job.
  explicit RestartableRank(std::shared_ptr<SavableDataLoader> loader,
                           Uneven uneven = Uneven::kRefuse);

  std::optional<Sample> next() { return loader_->next(); }

  /// The position of this rank (save_state_rank()), as JSON.
  StateDict state_dict();
  /// Loads a part from deaggregate_state_dict(). Stops the workers first. If not strict, ignores
  /// differences in the settings of the pipeline and in the data, as long as the position fits.
  /// Throws Error (kCorruptData, kMismatch).
  void load_state_dict(const StateDict& state, Strictness strictness);
  /// Combines the states of all ranks, in any order, into the state of the job. Throws Error of
  /// merge_states().
  StateDict aggregate_state_dict(std::span<const StateDict> states);
  /// This rank's part of a job's state; the job may have another layout. Throws Error of rescale().
  StateDict deaggregate_state_dict(const StateDict& state, Strictness strictness);

 private:
  std::shared_ptr<SavableDataLoader> loader_;
  Uneven uneven_;
};

}  // namespace energon
