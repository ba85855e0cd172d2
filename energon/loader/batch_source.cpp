#include "energon/loader/batch_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr const char* kSettings = "settings";

[[noreturn]] void refuse(std::string_view type, const std::string& difference) {
  throw Error(ErrorCode::kMismatch,
              fmt::format("the state does not fit this {}: {}", type, difference));
}

}  // namespace

void stop_and_restore(BatchSource& source, const SavableDataLoaderState& state) {
  try {
    source.stop();
  } catch (const Error&) {
    // The workers have ended nevertheless, and the state replaces the position.
  }
  source.restore_state_rank(state);
}

std::int64_t BatchSource::skip(std::int64_t count) {
  std::int64_t skipped = 0;
  while (skipped < count && next()) {
    ++skipped;
  }
  return skipped;
}

Config BatchSource::state_config() { return save_state_rank().config; }

Config BatchSource::common_settings() const { return nullptr; }

void BatchSource::set_epoch(std::int64_t epoch) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cannot choose epoch {}: the order of this source is one stream; "
                          "restore a state instead",
                          epoch));
}

Sample BatchSource::restore_sample(const RestoreKey& key) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("this source cannot rebuild the batch {}", key.text()));
}

const State& BatchSource::source_position_in(const SavableDataLoaderState& state,
                                             std::string_view type) {
  const State* position = state.adapters.empty() ? source_position(state) : nullptr;
  if (position == nullptr || position->type != type) {
    refuse(type, "it belongs to a " + source_kind(state));
  }
  return *position;
}

void BatchSource::check_node(const State& node, const State& expected) {
  std::vector<std::string> differences;
  compare_shapes(node, expected, "", differences);
  if (!differences.empty()) {
    refuse(expected.type, fmt::format("{}", fmt::join(differences, "; ")));
  }
}

std::pair<std::string, StateValue> BatchSource::settings_field(const Config& settings) {
  return {kSettings, settings.dump()};
}

void BatchSource::check_settings(const State& node, const State& expected, const Config& settings) {
  check_node(node, expected);
  const Config saved = Config::parse(node.bytes(kSettings), nullptr, false);
  if (!saved.is_object()) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the settings in the state of a {} are not a JSON object", expected.type));
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
