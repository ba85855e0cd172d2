// The JSON form of a state, for state dictionaries that people read and programs store.
//
//   {"type": "ShuffleBuffer",
//    "fields": {"drawn": 3, "open": [1, 2], "rng": {"base64": "AAEC"}, "name": {"text": "a"}},
//    "inner": [{"type": "Slices", "fields": {…}}]}
//
// The conversion is lossless: a round trip gives an equal state. See docs/formats/checkpoint.md.

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "energon/state/state.h"

namespace energon {

/// Throws Error (kUnsupported) if a type or a field name is not printable ASCII, or if a stage has
/// two fields with the same name.
nlohmann::ordered_json state_to_json(const State& state);

/// Throws Error (kCorruptData) with the path of the invalid element, which begins with `path`.
State state_from_json(const nlohmann::ordered_json& json, const std::string& path = "state");

}  // namespace energon
