#include "protocols/cerebras/restartable.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {

void throw_not_restartable() {
  throw Error(ErrorCode::kUnsupported,
              "the worker objects of this loader are not restartable: they need state_dict(), "
              "load_state_dict(), aggregate_state_dict() and deaggregate_state_dict()");
}

// --- Settings ---

void compare_settings(const StateDict& saved, const StateDict& current,
                      const std::vector<std::string>& ignored,
                      std::vector<std::string>& differences) {
  const auto is_ignored = [&ignored](const std::string& name) {
    return std::find(ignored.begin(), ignored.end(), name) != ignored.end();
  };
  for (const auto& [name, value] : saved.items()) {
    if (!is_ignored(name) && !current.contains(name)) {
      differences.push_back(
          fmt::format("{}: {} in the state, but unknown here", name, to_text(value, name)));
    }
  }
  for (const auto& [name, value] : current.items()) {
    if (is_ignored(name)) {
      continue;
    }
    if (!saved.contains(name)) {
      differences.push_back(
          fmt::format("{}: not in the state, now {}", name, to_text(value, name)));
    } else if (saved.at(name) != value) {
      differences.push_back(fmt::format("{}: {} in the state, now {}", name,
                                        to_text(saved.at(name), name), to_text(value, name)));
    }
  }
}

void refuse_differences(const std::vector<std::string>& differences) {
  if (!differences.empty()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state was saved under other settings; nothing was loaded:\n  {}",
                            fmt::join(differences, "\n  ")));
  }
}

std::int64_t count_in(const StateDict& state, const std::string& name) {
  if (!state.is_object() || !state.contains(name)) {
    throw Error(ErrorCode::kMismatch, fmt::format("the state has no '{}'", name));
  }
  const StateDict& value = state.at(name);
  if (!value.is_number_integer() || value < 0 || value > kMostSamples) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("'{}' is {} in the state, but must be a number from 0 to {}", name,
                            to_text(value, name), kMostSamples));
  }
  return value.get<std::int64_t>();
}

}  // namespace energon
