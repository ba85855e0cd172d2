// The loader's own state through the restartable protocol, rank by rank.
//
// One part is that of a rank, and the aggregated state is that of the job, so it can be taken apart
// for any layout: rescale() deals the logical shards anew.

#pragma once

#include <memory>
#include <optional>
#include <span>

#include "energon/checkpoint/rescale.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/protocols/restartable.h"

namespace energon {

/// Restartable. For one thread at a time; moved-from objects must not be used.
class RestartableRank {
 public:
  /// Takes part in `loader`. `uneven`: for states of jobs whose logical shards cannot be divided
  /// evenly over the ranks of this one.
  explicit RestartableRank(std::shared_ptr<SavableDataLoader> loader,
                           Uneven uneven = Uneven::kRefuse);

  std::optional<Sample> next() { return loader_->next(); }

  /// The position of this rank (save_state_rank()), as JSON.
  StateDict state_dict();
  /// A part from deaggregate_state_dict(). Stops the workers first. If not strict, settings of the
  /// pipeline and data that differ are ignored, as long as the position fits. Throws Error
  /// (kCorruptData, kMismatch).
  void load_state_dict(const StateDict& state, Strictness strictness);
  /// The states of all ranks, in any order, as that of the job. Throws Error of merge_states().
  StateDict aggregate_state_dict(std::span<const StateDict> states);
  /// This rank's part, also of a job on another layout. Throws Error of rescale().
  StateDict deaggregate_state_dict(const StateDict& state, Strictness strictness);

 private:
  std::shared_ptr<SavableDataLoader> loader_;
  Uneven uneven_;
};

}  // namespace energon
