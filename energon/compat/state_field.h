// Replaces a field of a state.

#pragma once

#include <string_view>

#include "energon/state/state.h"

namespace energon {

/// Requires: `state` has the field `name`.
void set_field(State& state, std::string_view name, StateValue value);

}  // namespace energon
