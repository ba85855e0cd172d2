// The state of a whole job: the states of all ranks, on one of them.

#pragma once

#include <vector>

#include "energon/distributed/comm.h"
#include "energon/loader/savable_data_loader.h"

namespace energon {

/// The states of all ranks, by rank, on rank `destination`; nothing elsewhere. All ranks call it at
/// the same step. Throws Error of the Comm; of save_state_rank(), on the rank where it failed and
/// on `destination`.
std::vector<SavableDataLoaderState> save_state_global(SavableDataLoader& loader, Comm& comm,
                                                      int destination);

/// Gives each rank its state of `states`, which only rank `source` has to have, and restores it.
/// All ranks call it. Throws Error on every rank if it fails on one: kMismatch if there is not one
/// state for each rank; of restore_state_rank(), with the ranks where it failed. Then the ranks
/// where it did not have been restored: stop the job, or restore another state.
void restore_state_global(SavableDataLoader& loader, Comm& comm,
                          const std::vector<SavableDataLoaderState>& states, int source);

}  // namespace energon
