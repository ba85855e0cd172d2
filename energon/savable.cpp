#include "energon/savable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

void Savable::restore_state(const State& state) {
  std::vector<std::string> differences;
  compare_shapes(state, save_state(), "", differences);
  if (differences.empty()) {
    check_state(state, differences);
  }
  if (!differences.empty()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state does not fit this pipeline; nothing was restored:\n  {}",
                            fmt::join(differences, "\n  ")));
  }
  apply_state(state);
}

void compare_configs(const Config& config, const Config& expected, const std::string& path,
                     std::vector<std::string>& differences) {
  const std::string here = path.empty() ? "config" : path;
  if (config.is_object() && expected.is_object() &&
      config.value("type", "") != expected.value("type", "")) {
    differences.push_back(fmt::format("{}: a {}, expected a {}", here,
                                      config.value("type", "stage without type"),
                                      expected.value("type", "stage without type")));
  } else if (config.is_object() && expected.is_object()) {
    for (const auto& [name, value] : expected.items()) {
      if (config.contains(name)) {
        compare_configs(config.at(name), value, here + "." + name, differences);
      } else {
        differences.push_back(fmt::format("{}.{}: not set, expected {}", here, name, value.dump()));
      }
    }
    for (const auto& [name, value] : config.items()) {
      if (!expected.contains(name)) {
        differences.push_back(
            fmt::format("{}.{}: {}, expected not to be set", here, name, value.dump()));
      }
    }
  } else if (config.is_array() && expected.is_array() && config.size() == expected.size()) {
    for (std::size_t i = 0; i < config.size(); ++i) {
      compare_configs(config[i], expected[i], fmt::format("{}[{}]", here, i), differences);
    }
  } else if (config != expected) {
    differences.push_back(fmt::format("{}: {}, expected {}", here, config.dump(), expected.dump()));
  }
}

}  // namespace energon
