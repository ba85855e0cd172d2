#include "energon/compat/state_field.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

void set_field(State& state, std::string_view name, StateValue value) {
  const auto found = std::find_if(state.fields.begin(), state.fields.end(),
                                  [name](const auto& field) { return field.first == name; });
  if (found == state.fields.end()) {
    throw Error(ErrorCode::kInternal, fmt::format("{} has no field {}", state.type, name));
  }
  found->second = std::move(value);
}

}  // namespace energon
