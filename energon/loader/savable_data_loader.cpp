#include "energon/loader/savable_data_loader.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/state_config.h"
#include "energon/loader/loader_config.h"
#include "energon/loader/rank_stream.h"
#include "io/error.h"

namespace energon {
namespace {

Access access_of(const std::optional<OneCaller::Call>& call) {
  return call ? Access::kAlone : Access::kBeside;
}

}  // namespace

SavableDataLoader::SavableDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options)
    : stream_(std::make_unique<RankStream>("SavableDataLoader", make_pipeline, options)),
      restorer_(std::make_unique<SampleRestorer>(std::move(make_pipeline), options.worker_config)) {
}

SavableDataLoader::~SavableDataLoader() = default;

std::optional<Sample> SavableDataLoader::next() {
  const OneCaller::Call call = stream_->caller().enter("next()");
  return stream_->next();
}

SavableDataLoaderState SavableDataLoader::save_state_rank() {
  const auto call = stream_->caller().enter_briefly("save_state_rank()");
  return stream_->save_state(access_of(call));
}

SavableDataLoaderState SavableDataLoader::state_at(std::int64_t batch_index) {
  const auto call = stream_->caller().enter_briefly("state_at()");
  return stream_->state_at(batch_index, access_of(call));
}

std::int64_t SavableDataLoader::earliest_state() const { return stream_->earliest_state(); }

void SavableDataLoader::rewind(std::int64_t batch_index) {
  const OneCaller::Call call = stream_->caller().enter("rewind()");
  stream_->rewind(batch_index);
}

void SavableDataLoader::restore_state_rank(const SavableDataLoaderState& state) {
  const OneCaller::Call call = stream_->caller().enter("restore_state_rank()");
  if (!state.adapters.empty()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state is of a {}: restore it into such an adapter, this is the "
                            "loader alone",
                            source_kind(state)));
  }
  stream_->restore_state(state);
}

void SavableDataLoader::stop() {
  const OneCaller::Call call = stream_->caller().enter("stop()");
  stream_->stop();
}

void SavableDataLoader::close() { stream_->close(); }

Sample SavableDataLoader::restore_sample(const RestoreKey& key) {
  const OneCaller::Call call = stream_->caller().enter("restore_sample()");
  return restorer_->restore(key);
}

std::optional<std::int64_t> SavableDataLoader::size() const { return stream_->epoch_size(); }

std::optional<std::int64_t> SavableDataLoader::batches_left() const {
  return stream_->batches_left();
}

std::int64_t SavableDataLoader::epoch() const { return stream_->epochs_ended(); }

Config SavableDataLoader::state_config() { return stream_->config(); }

// The data of a job of one rank is its own.
Config SavableDataLoader::common_settings() const {
  return options().worker_config.world_size > 1 ? common_config(stream_->config()) : Config();
}

const LoaderOptions& SavableDataLoader::options() const { return stream_->options(); }

Config SavableDataLoader::config() const {
  return loader_config("SavableDataLoader", options(), stream_->config());
}

LoaderStatistics SavableDataLoader::stats() const { return stream_->stats(); }

std::vector<int> SavableDataLoader::worker_pids() const { return stream_->worker_pids(); }

}  // namespace energon
