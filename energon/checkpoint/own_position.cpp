#include "energon/checkpoint/own_position.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/order/worker_config.h"
#include "io/error.h"

namespace energon {

SavableDataLoaderState own_state(State position, const EpochStep& at, const OwnPlace& place) {
  if (!position.children.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the position of a source has no inner states, that of {} has {}",
                            position.type, position.children.size()));
  }
  SavableDataLoaderState state;
  state.config = layout_config({.rank = place.rank, .world_size = place.world_size});
  (*state.config)["source"] = position.type;
  (*state.config)["pipeline"] =
      place.common_settings->is_null() ? Config::object() : *place.common_settings;
  state.streams.resize(1);
  state.streams[0].logical_shard = place.rank;
  state.streams[0].turn = {at.epoch, at.step};
  state.streams[0].epoch = at.epoch;
  state.streams[0].state = std::move(position);
  state.epoch = at.epoch;
  state.step_in_epoch = at.step;
  state.batch_index = at.step;
  return state;
}

bool has_own_position(const Config& config) { return config.contains("source"); }

const State* own_position(const SavableDataLoaderState& state) {
  const bool is_own = has_own_position(state.config) && state.streams.size() == 1;
  return is_own && state.streams[0].state ? &*state.streams[0].state : nullptr;
}

std::string source_kind(const SavableDataLoaderState& state) {
  std::string kind;
  for (const State& adapter : state.adapters) {
    kind += printable(adapter.type) + " over ";
  }
  const State* position = own_position(state);
  return kind + (position != nullptr ? printable(position->type) : "Loader");
}

}  // namespace energon
