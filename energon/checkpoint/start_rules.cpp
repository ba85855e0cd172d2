#include "energon/checkpoint/start_rules.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"

namespace energon {

std::optional<State> start_under_rules_of(const SavableDatasetCheckpoint& stream,
                                          const Config& config, const Dataset& pipeline) {
  if (!stream.state && draws_as_today(config)) {
    return std::nullopt;
  }
  const State start = pipeline.save_state();
  State old = start;
  if (stream.state) {
    copy_rules(*stream.state, old);
  } else {
    clear_rules(old);
  }
  return old == start ? std::nullopt : std::optional(std::move(old));
}

}  // namespace energon
