#include "energon/distributed/batch_source.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

constexpr const char* kSettings = "settings";

bool has_settings(const State& state) {
  return std::any_of(state.fields.begin(), state.fields.end(),
                     [](const auto& field) { return field.first == kSettings; });
}

}  // namespace

std::int64_t BatchSource::skip(std::int64_t count) {
  std::int64_t skipped = 0;
  while (skipped < count && next()) {
    ++skipped;
  }
  return skipped;
}

Config BatchSource::common_settings() { return nullptr; }

void BatchSource::set_epoch(std::int64_t epoch) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("epoch {} cannot be chosen: the order of this source is one stream; "
                          "restore a state instead",
                          epoch));
}

Sample BatchSource::restore_sample(const RestoreKey& key) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("this source cannot rebuild the batch {}", key.text()));
}

void BatchSource::check_shape(const State& state, const State& expected) {
  State outer = state;
  State outer_expected = expected;
  std::vector<std::string> differences;
  if (state.children.size() != expected.children.size()) {
    differences.push_back(fmt::format("{}: {} inner states, expected {}", expected.type,
                                      state.children.size(), expected.children.size()));
  }
  outer.children.clear();
  outer_expected.children.clear();
  compare_shapes(outer, outer_expected, expected.type, differences);
  if (!differences.empty()) {
    throw Error(ErrorCode::kMismatch, fmt::format("the state does not fit this {}: {}",
                                                  expected.type, fmt::join(differences, "; ")));
  }
}

std::pair<std::string, StateValue> BatchSource::settings_field(const Config& settings) {
  return {kSettings, settings.dump()};
}

void BatchSource::check_settings(const State& state, State expected, const Config& settings) {
  if (!has_settings(state)) {
    std::erase_if(expected.fields, [](const auto& field) { return field.first == kSettings; });
    check_shape(state, expected);
    return;
  }
  check_shape(state, expected);
  const Config saved = Config::parse(state.bytes(kSettings), nullptr, false);
  if (!saved.is_object()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the settings in the state of a {} are no JSON object", expected.type));
  }
  std::vector<std::string> differences;
  compare_configs(saved, settings, "", differences);
  if (!differences.empty()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state of the {} was saved under other settings; nothing was "
                            "restored:\n  {}",
                            expected.type, fmt::join(differences, "\n  ")));
  }
}

}  // namespace energon
