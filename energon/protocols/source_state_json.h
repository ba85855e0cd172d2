// The JSON form of the state of a batch source: that of its tree (energon/checkpoint/state_forms.h,
// energon/state/state_json.h), but the position of the loader in it is readable JSON as well
// (energon/checkpoint/state_forms.h):
//
//   {"type": "Loader", "loader": {"batch_index": 11, …}}

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "energon/checkpoint/loader_state.h"

namespace energon {

/// Throws Error (kUnsupported) like state_to_json().
nlohmann::ordered_json source_state_to_json(const SavableDataLoaderState& state);

/// Throws Error (kCorruptData) with the JSON path of the faulty value, which begins with `path`.
SavableDataLoaderState source_state_from_json(const nlohmann::ordered_json& json,
                                              const std::string& path);

}  // namespace energon
