// The state of a whole job: the states of all ranks, on one of them.

#pragma once

#include <optional>

#include "energon/checkpoint/job_state.h"
#include "energon/distributed/comm.h"
#include "energon/loader/savable_data_loader.h"

namespace energon {

/// The state of the job, on rank `destination`; nothing elsewhere. `comm` has the ranks of the
/// loaders' layout. All ranks call it at the same step. Throws Error of the Comm; of
/// save_state_rank(), on the rank where it failed and on `destination`; of merge_states() on
/// `destination`.
std::optional<SavableJobState> save_state_global(SavableDataLoader& loader, Comm& comm,
                                                 int destination);

/// Gives each rank its part of `job`, which only rank `source` has to have, and restores it. All
/// ranks call it. Throws Error on every rank if it fails on one: kMismatch if the job has another
/// number of ranks (then rescale() it first) or `source` has none; of restore_state_rank(), with
/// the ranks where it failed. Then the ranks where it did not have been restored: stop the job, or
/// restore another state.
void restore_state_global(SavableDataLoader& loader, Comm& comm,
                          const std::optional<SavableJobState>& job, int source);

}  // namespace energon
