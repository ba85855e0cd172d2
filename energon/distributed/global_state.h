// Saves and restores the state of a whole job: collects the states of all ranks on one of them.

#pragma once

#include <optional>

#include "energon/checkpoint/job_state.h"
#include "energon/distributed/comm.h"
#include "energon/loader/batch_source.h"

namespace energon {

/// The state of the job, on rank `destination`; nothing elsewhere. It has the ranks of the loaders'
/// layout: all ranks of `comm`, or one if that one reads for all. All ranks call it at the same
/// step. Throws Error of the Comm. An Error of save_state_rank() is thrown on the rank where it
/// failed and on `destination`; an Error of merge_states() on `destination`.
std::optional<SavableJobState> save_state_global(BatchSource& source, Comm& comm, int destination);

/// Sends each rank its part of `job`, which only rank `root` needs to pass, and restores it. All
/// ranks call it. If one rank fails, throws Error on every rank: kMismatch if the job has another
/// number of ranks (rescale() it first) or `root` passed none; an Error of restore_state_rank(),
/// with the ranks where it failed. In the last case the other ranks have been restored: stop the
/// job, or restore another state.
void restore_state_global(BatchSource& source, Comm& comm,
                          const std::optional<SavableJobState>& job, int root);

}  // namespace energon
