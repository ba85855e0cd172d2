// The JSON form of the state of a batch source. It is the form of energon/state/state_json.h, but
// the position of each loader in the tree is readable JSON as well
// (energon/checkpoint/loader_state_json.h):
//
//   {"type": "Loader", "loader": {"batch_index": 11, …}}

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "energon/state/state.h"

namespace energon {

/// Throws Error (kUnsupported) like state_to_json().
nlohmann::ordered_json source_state_to_json(const State& state);

/// Throws Error (kCorruptData) with the JSON path of the faulty value, which begins with `path`.
State source_state_from_json(const nlohmann::ordered_json& json, const std::string& path);

}  // namespace energon
