// The JSON form of a loader's position, for state dictionaries.
//
//   {"batch_index": 11, "step_in_epoch": 11, "epoch": 0, "epoch_finished": false,
//    "next_worker_id": 2, "micro_batch_size": null,
//    "worker_states": [{"logical_shard": 0, "turn": {"epoch": 0, "count": 4},
//                       "certificate": "00…", "samples": 4, "index": 4, "epoch": 0, "offset": 0,
//                       "state": {"type": …}}, …],
//    "config": {…}}
//
// The conversion is lossless: a round trip gives an equal state. See docs/formats/checkpoint.md.

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "energon/checkpoint/loader_state.h"

namespace energon {

/// Throws Error (kUnsupported) in the same cases as state_to_json().
nlohmann::ordered_json loader_state_to_json(const SavableDataLoaderState& state);

/// Throws Error (kCorruptData) with the path of the invalid element, which begins with `path`.
SavableDataLoaderState loader_state_from_json(const nlohmann::ordered_json& json,
                                              const std::string& path = "state");

}  // namespace energon
