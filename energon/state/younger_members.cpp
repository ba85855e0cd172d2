#include "energon/state/younger_members.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace energon {
namespace {

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

bool is_younger_member(std::string_view name) {
  return std::find(kYoungerMembers.begin(), kYoungerMembers.end(), name) != kYoungerMembers.end();
}

Config without_younger_members(const Config& config) {
  if (config.is_object()) {
    Config kept = Config::object();
    for (const auto& [name, value] : config.items()) {
      if (!is_younger_member(name)) {
        kept[name] = without_younger_members(value);
      }
    }
    return kept;
  }
  if (config.is_array()) {
    Config kept = Config::array();
    for (const Config& value : config) {
      kept.push_back(without_younger_members(value));
    }
    return kept;
  }
  return config;
}

Config values_of_member(const Config& config, std::string_view name) {
  Config values = Config::array();
  append_values(config, name, values);
  return values;
}

}  // namespace energon
