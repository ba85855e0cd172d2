// Other forms of a saved position, for programs that store states themselves: JSON for state
// dictionaries, one tree for the state of a source with its adapters, and a flat map of tensors for
// checkpoints that are saved and loaded by name. docs/formats/checkpoint.md describes all of them.
// loader_state.cpp has the form of files.

#pragma once

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/sample/sample.h"
#include "energon/state/state.h"

namespace energon {

// A state as a flat map of names to tensors, for checkpoints that are saved and loaded by name
// across ranks (torch.distributed.checkpoint and its like).
//
//   energon/config              JSON: the configuration that the job's position belongs to
//   energon/logical_shard/17    the position of logical shard 17, and its rank
//
// docs/formats/checkpoint.md gives the layout of the bytes.
//
// Every value is a one-dimensional uint8 tensor, strings and numbers included, so that no framework
// converts it. A name alone identifies its content, regardless of the rank that stored it and of
// the order of the names. A rank ignores the names of other ranks.

using FlatState = std::map<std::string, Tensor>;

/// The entries that `rank` must store. energon/config is the same for all ranks.
FlatState flatten_state(const SavableDataLoaderState& rank);
/// The entries of all ranks.
FlatState flatten_state(const SavableJobState& job);

/// Rebuilds the state of `rank`. `state` may have more names. Throws Error: kMismatch that lists
/// the missing names, or if the logical shards belong to different steps; kCorruptData for a
/// damaged value.
SavableDataLoaderState unflatten_state(const FlatState& state, int rank);

// The JSON form of a loader's position, for state dictionaries.
//
//   {"batch_index": 11, "step_in_epoch": 11, "epoch": 0, "epoch_finished": false,
//    "next_worker_id": 2, "micro_batch_size": null,
//    "checkpoints": [{"logical_shard": 0, "turn": {"epoch": 0, "count": 4},
//                       "certificate": "00…", "samples": 4, "index": 4, "epoch": 0, "offset": 0,
//                       "state": {"type": …}}, …],
//    "config": {…}}
//
// The conversion is lossless: a round trip gives an equal state. See docs/formats/checkpoint.md.

/// Throws Error (kUnsupported) in the same cases as state_to_json().
nlohmann::ordered_json loader_state_to_json(const SavableDataLoaderState& state);

/// Throws Error (kCorruptData) with the path of the invalid element, which begins with `path`.
SavableDataLoaderState loader_state_from_json(const nlohmann::ordered_json& json,
                                              const std::string& path = "state");

// The state of a source as one tree: its adapters, outermost first, each with the next one as its
// only child, and innermost the position of the source. The node of a loader is `Loader`, with its
// encoded state. Stateful dictionaries and adapter state files have this form.

/// Converts to and from the tree. The tree of a source with its own position does not have the
/// rank: from_tree() returns it as the position of rank 0 of 1. from_tree() throws Error: kMismatch
/// if a node has several children, and those of decode_loader_state() and check_loader_state(),
/// whose paths begin with "state" as for a state file.
State to_tree(const SavableDataLoaderState& state);
SavableDataLoaderState from_tree(const State& tree);

}  // namespace energon
