#include "energon/state/savable.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::size_t kLongestValue = 100;  // bytes of JSON in a message

bool is_side_file_digest(std::string_view name) {
  return std::find(kSideFileDigests.begin(), kSideFileDigests.end(), name) !=
         kSideFileDigests.end();
}

std::string text_of(const Config& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A value for one line of a message: large objects and lists are only counted.
std::string brief(const Config& value) {
  std::string text = text_of(value);
  if (text.size() <= kLongestValue) {
    return text;
  }
  if (value.is_object()) {
    const std::string type = value.value("type", "");
    return fmt::format("{{{}{} members}}", type.empty() ? "" : type + ", ", value.size());
  }
  if (value.is_array()) {
    return fmt::format("[{} entries]", value.size());
  }
  std::size_t end = kLongestValue;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {  // do not split a character
    --end;
  }
  return fmt::format("{}… ({} bytes)", text.substr(0, end), text.size());
}

void append_values(const Config& config, std::string_view name, Config& values) {
  if (!config.is_structured()) {
    return;
  }
  for (const auto& [key, value] : config.items()) {
    if (config.is_object() && key == name) {
      values.push_back(value);
    } else {
      append_values(value, name, values);
    }
  }
}

}  // namespace

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
      if (!config.contains(name) && is_side_file_digest(name)) {
        continue;
      }
      if (config.contains(name)) {
        compare_configs(config.at(name), value, fmt::format("{}.{}", here, name), differences);
      } else {
        differences.push_back(fmt::format("{}.{}: not set, expected {}", here, name, brief(value)));
      }
    }
    for (const auto& [name, value] : config.items()) {
      if (!expected.contains(name) && !is_side_file_digest(name)) {
        differences.push_back(
            fmt::format("{}.{}: {}, expected it to be unset", here, name, brief(value)));
      }
    }
  } else if (config.is_array() && expected.is_array() && config.size() == expected.size()) {
    for (std::size_t i = 0; i < config.size(); ++i) {
      compare_configs(config[i], expected[i], fmt::format("{}[{}]", here, i), differences);
    }
  } else if (config.is_array() && expected.is_array() &&
             text_of(config).size() + text_of(expected).size() > kLongestValue) {
    // Entries after the first difference are likely shifted, so only that one is shown.
    differences.push_back(
        fmt::format("{}: {} entries, expected {}", here, config.size(), expected.size()));
    const std::size_t both = std::min(config.size(), expected.size());
    std::size_t first = 0;
    while (first < both && config[first] == expected[first]) {
      ++first;
    }
    if (first < both) {
      compare_configs(config[first], expected[first], fmt::format("{}[{}]", here, first),
                      differences);
    } else if (both < expected.size()) {
      differences.push_back(
          fmt::format("{}[{}]: not set, expected {}", here, both, brief(expected[both])));
    } else {
      differences.push_back(
          fmt::format("{}[{}]: {}, expected it to be unset", here, both, brief(config[both])));
    }
  } else if (config != expected) {
    differences.push_back(fmt::format("{}: {}, expected {}", here, brief(config), brief(expected)));
  }
}

Config without_side_files(const Config& config) {
  if (config.is_object()) {
    Config result = Config::object();
    for (const auto& [name, value] : config.items()) {
      if (!is_side_file_digest(name)) {
        result[name] = without_side_files(value);
      }
    }
    return result;
  }
  if (config.is_array()) {
    Config result = Config::array();
    for (const Config& value : config) {
      result.push_back(without_side_files(value));
    }
    return result;
  }
  return config;
}

Config values_of_member(const Config& config, std::string_view name) {
  Config values = Config::array();
  append_values(config, name, values);
  return values;
}

}  // namespace energon
