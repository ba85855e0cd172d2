// The JSON form of a state, for dictionaries of states that people read and programs store.
//
//   {"type": "ShuffleBuffer",
//    "fields": {"drawn": 3, "open": [1, 2], "rng": {"base64": "AAEC"}, "name": {"text": "a"}},
//    "inner": [{"type": "Slices", "fields": {…}}]}
//
// Nothing is lost: a state is equal after both ways. docs/formats/checkpoint.md says more.

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "energon/state/state.h"

namespace energon {

/// Throws Error (kUnsupported) if a type or the name of a field is not printable ASCII, or a stage
/// has two fields of one name.
nlohmann::ordered_json state_to_json(const State& state);

/// Throws Error (kCorruptData) with the path of what is wrong, which begins with `path`.
State state_from_json(const nlohmann::ordered_json& json, const std::string& path = "state");

}  // namespace energon
