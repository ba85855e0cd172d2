// The form in which programs saved states until version 3: generators as their words, references in
// bytes, each state with its structure.

#pragma once

#include <string>

#include "energon/checkpoint/loader_state.h"

namespace energon::testing {

/// `state` with the fields that those programs wrote.
State in_old_form(const State& state);
/// The file of version 2 (with adapters: 3) that they wrote for `state`.
std::string encode_old_file(const SavableDataLoaderState& state);

}  // namespace energon::testing
