#include "energon/loader/savable_data_loader.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/state_config.h"
#include "energon/loader/loader_config.h"
#include "energon/loader/rank_loader.h"
#include "io/error.h"

namespace energon {
namespace {

Access access_of(const std::optional<OneCaller::Call>& call) {
  return call ? Access::kAlone : Access::kBeside;
}

}  // namespace

SavableDataLoader::SavableDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options)
    : loader_(std::make_unique<RankLoader>("SavableDataLoader", make_pipeline, options)),
      restorer_(std::make_unique<SampleRestorer>(std::move(make_pipeline), options.worker_config)) {
}

SavableDataLoader::~SavableDataLoader() = default;

std::optional<Sample> SavableDataLoader::next() {
  const OneCaller::Call call = loader_->caller().enter("next()");
  return loader_->next();
}

SavableDataLoaderState SavableDataLoader::save_state_rank() {
  const auto call = loader_->caller().enter_briefly("save_state_rank()");
  return loader_->save_state(access_of(call));
}

SavableDataLoaderState SavableDataLoader::state_at(std::int64_t batch_index) {
  const auto call = loader_->caller().enter_briefly("state_at()");
  return loader_->state_at(batch_index, access_of(call));
}

std::int64_t SavableDataLoader::earliest_state() const { return loader_->earliest_state(); }

void SavableDataLoader::rewind(std::int64_t batch_index) {
  const OneCaller::Call call = loader_->caller().enter("rewind()");
  loader_->rewind(batch_index);
}

void SavableDataLoader::restore_state_rank(const SavableDataLoaderState& state) {
  const OneCaller::Call call = loader_->caller().enter("restore_state_rank()");
  if (!state.adapters.empty()) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("the state belongs to a {}: restore it into such an adapter, not into the "
                    "loader alone",
                    source_kind(state)));
  }
  loader_->restore_state(state);
}

void SavableDataLoader::stop() {
  const OneCaller::Call call = loader_->caller().enter("stop()");
  loader_->stop();
}

void SavableDataLoader::close() { loader_->close(); }

Sample SavableDataLoader::restore_sample(const RestoreKey& key) {
  const OneCaller::Call call = loader_->caller().enter("restore_sample()");
  return restorer_->restore(key);
}

std::optional<std::int64_t> SavableDataLoader::size() const { return loader_->epoch_size(); }

std::optional<std::int64_t> SavableDataLoader::batches_left() const {
  return loader_->batches_left();
}

std::int64_t SavableDataLoader::epoch() const { return loader_->epochs_ended(); }

Config SavableDataLoader::state_config() { return loader_->config(); }

// With one rank, there is nothing to compare.
Config SavableDataLoader::common_settings() const {
  return options().worker_config.world_size > 1 ? common_config(loader_->config()) : Config();
}

const LoaderOptions& SavableDataLoader::options() const { return loader_->options(); }

Config SavableDataLoader::config() const {
  return loader_config("SavableDataLoader", options(), loader_->config());
}

LoaderStatistics SavableDataLoader::stats() const { return loader_->stats(); }

std::vector<int> SavableDataLoader::worker_pids() const { return loader_->worker_pids(); }

}  // namespace energon
