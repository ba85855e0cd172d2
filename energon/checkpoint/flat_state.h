// A state as a flat map of names to tensors, for checkpoints that are saved and loaded by name
// across ranks (torch.distributed.checkpoint and its like).
//
//   energon/config              JSON: the configuration that the job's position belongs to
//   energon/logical_shard/17    the position of logical shard 17, and its rank
//
// docs/formats/checkpoint.md gives the layout of the bytes.
//
// Every value is a one-dimensional uint8 tensor, texts and numbers included, so no value is
// converted on the way. A name alone identifies its content, regardless of which rank stored it and
// of the order in which names come back. A rank that receives the names of other ranks ignores
// them.

#pragma once

#include <map>
#include <string>

#include "energon/checkpoint/job_state.h"
#include "energon/sample/sample.h"

namespace energon {

using FlatState = std::map<std::string, Tensor>;

/// The entries that `rank` has to store. energon/config is the same for all ranks.
FlatState flatten_state(const SavableDataLoaderState& rank);
/// The entries of all ranks.
FlatState flatten_state(const SavableJobState& job);

/// Rebuilds the state of `rank`. `state` may have more names. Throws Error: kMismatch that lists
/// the missing names, or if the logical shards belong to different steps; kCorruptData for a
/// damaged value.
SavableDataLoaderState unflatten_state(const FlatState& state, int rank);

}  // namespace energon
