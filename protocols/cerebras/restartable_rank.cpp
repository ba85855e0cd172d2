#include "protocols/cerebras/restartable_rank.h"

#include <string>
#include <utility>
#include <vector>

#include "energon/checkpoint/state_config.h"
#include "energon/checkpoint/state_forms.h"
#include "io/error.h"
#include "protocols/cerebras/restartable.h"

namespace energon {

RestartableRank::RestartableRank(std::shared_ptr<SavableDataLoader> loader, Uneven uneven)
    : loader_(std::move(loader)), uneven_(uneven) {}

StateDict RestartableRank::state_dict() { return loader_state_to_json(loader_->save_state_rank()); }

void RestartableRank::load_state_dict(const StateDict& state, Strictness strictness) {
  SavableDataLoaderState position = loader_state_from_json(state);
  try {
    loader_->stop();
  } catch (const Error&) {
    // The workers have ended nevertheless, and the state replaces the position.
  }
  if (strictness == Strictness::kLenient) {
    (*position.config)["pipeline"] = loader_->config().at("state_config").at("pipeline");
  }
  loader_->restore_state_rank(position);
}

StateDict RestartableRank::aggregate_state_dict(std::span<const StateDict> states) {
  std::vector<SavableDataLoaderState> ranks;
  for (const StateDict& state : states) {
    ranks.push_back(loader_state_from_json(state));
  }
  StateDict job = {{"ranks", StateDict::array()}};
  for (const SavableDataLoaderState& rank : merge_states(std::move(ranks)).ranks) {
    job["ranks"].push_back(loader_state_to_json(rank));
  }
  return job;
}

StateDict RestartableRank::deaggregate_state_dict(const StateDict& state,
                                                  Strictness /*strictness*/) {
  if (!state.is_object() || !state.contains("ranks") || !state.at("ranks").is_array()) {
    refuse_differences({"ranks: not in the state of the job"});
  }
  std::vector<SavableDataLoaderState> ranks;
  for (const StateDict& rank : state.at("ranks")) {
    ranks.push_back(loader_state_from_json(rank, "ranks[" + std::to_string(ranks.size()) + "]"));
  }
  const WorkerConfig layout = layout_of(loader_->config().at("state_config"));
  const SavableJobState job = rescale(
      merge_states(std::move(ranks)),
      {.world_size = layout.world_size, .num_workers = layout.num_workers, .uneven = uneven_});
  return loader_state_to_json(state_of_rank(job, layout.rank));
}

}  // namespace energon
