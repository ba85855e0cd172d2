// A state as a flat map of names to tensors, for checkpoints that are saved and loaded by name
// across ranks (torch.distributed.checkpoint and its like).
//
//   energon/config              JSON: what the job's position belongs to
//   energon/logical_shard/17    where logical shard 17 stands, and its rank
//
// docs/formats/checkpoint.md gives the bytes.
//
// Every value is a one-dimensional uint8 tensor, texts and numbers included, so nothing is coerced
// on the way. A name says what it is of, whichever rank stored it and in which order names come
// back: a rank that gets more than its own takes its own.

#pragma once

#include <map>
#include <string>

#include "energon/checkpoint/job_state.h"
#include "energon/sample/sample.h"

namespace energon {

using FlatState = std::map<std::string, Tensor>;

/// What `rank` has to store; energon/config is the same for all ranks.
FlatState flatten_state(const SavableDataLoaderState& rank);
/// The same of all ranks.
FlatState flatten_state(const SavableJobState& job);

/// The state of `rank` again. `state` may have more names. Throws Error: kMismatch that lists the
/// names that are missing, or if the logical shards are of different steps; kCorruptData for a
/// value that is damaged.
SavableDataLoaderState unflatten_state(const FlatState& state, int rank);

}  // namespace energon
