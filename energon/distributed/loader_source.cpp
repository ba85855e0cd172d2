#include "energon/distributed/loader_source.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/state_config.h"
#include "energon/distributed/rank_agreement.h"
#include "io/error.h"

namespace energon {
namespace {

std::int64_t epochs_ended(const SavableDataLoaderState& state) {
  return state.epoch + (state.epoch_finished ? 1 : 0);
}

}  // namespace

LoaderSource::LoaderSource(std::shared_ptr<SavableDataLoader> loader)
    : loader_(std::move(loader)), epoch_(epochs_ended(loader_->save_state_rank())) {}

std::optional<Sample> LoaderSource::next() {
  std::optional<Sample> batch = loader_->next();
  if (!batch) {
    ++epoch_;
  }
  return batch;
}

// Of one that is a job of its own the data is its own, too.
Config LoaderSource::common_settings() {
  Config config = loader_->save_state_rank().config;
  return layout_of(config).world_size > 1 ? common_config(std::move(config)) : Config();
}

State LoaderSource::save_state() {
  return {"Loader", {{"state", encode_loader_state(loader_->save_state_rank())}}, {}};
}

void LoaderSource::restore_state(const State& state) {
  check_shape(state, {"Loader", {{"state", std::string()}}, {}});
  const SavableDataLoaderState decoded = decode_loader_state(state.bytes("state"));
  try {
    loader_->stop();
  } catch (const Error&) {
    // The workers are ended all the same, and the state replaces the position.
  }
  loader_->restore_state_rank(decoded);
  epoch_ = epochs_ended(decoded);
}

}  // namespace energon
