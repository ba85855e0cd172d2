// The JSON form of the state of a batch source: that of energon/state/state_json.h, in which the
// position of a loader, wherever it is in the tree, can be read, too
// (energon/checkpoint/loader_state_json.h):
//
//   {"type": "Loader", "loader": {"batch_index": 11, …}}

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "energon/state/state.h"

namespace energon {

/// Throws Error (kUnsupported) as state_to_json().
nlohmann::ordered_json source_state_to_json(const State& state);

/// Throws Error (kCorruptData) with the path of what is wrong, which begins with `path`.
State source_state_from_json(const nlohmann::ordered_json& json, const std::string& path);

}  // namespace energon
