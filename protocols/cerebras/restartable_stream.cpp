#include "protocols/cerebras/restartable_stream.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/distributed/rank_agreement.h"
#include "energon/state/savable.h"
#include "energon/state/state_json.h"
#include "io/error.h"
#include "protocols/cerebras/restartable.h"

namespace energon {
namespace {

constexpr std::int64_t kStreamStateVersion = 1;

// No other keys are allowed, so that a foreign state is not mistaken for one of this object.
void require_keys(const StateDict& state, const std::vector<std::string>& keys) {
  std::vector<std::string> differences;
  if (!state.is_object()) {
    differences.push_back(fmt::format("{}: expected an object", state.type_name()));
  } else {
    for (const std::string& key : keys) {
      if (!state.contains(key)) {
        differences.push_back(fmt::format("{}: not in the state", key));
      }
    }
    for (const auto& [key, value] : state.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        differences.push_back(fmt::format("{}: in the state, but unknown", key));
      }
    }
  }
  refuse_differences(differences);
}

// Identifies a configuration, and is small enough for the state of every worker. Side files are
// separate, because the data may not have had them when the state was saved.
StateDict digests_of(const Config& config) {
  StateDict digests = {{"config", agreement_digest(without_side_files(config))}};
  for (const std::string_view name : kSideFileDigests) {
    if (const Config values = values_of_member(config, name); !values.empty()) {
      digests[std::string(name)] = agreement_digest(values);
    }
  }
  return digests;
}

}  // namespace

RestartableStream::RestartableStream(const PipelineContext& context, PipelineFactory make_pipeline,
                                     OtherWorkers other_workers)
    : context_(context),
      make_pipeline_(std::move(make_pipeline)),
      other_workers_(other_workers),
      worker_(worker_identity(context)) {
  shard_ = worker_.global_worker_id();
  pipeline_ = pipeline_of(shard_);
}

std::unique_ptr<Dataset> RestartableStream::pipeline_of(int shard) const {
  WorkerConfig config = context_.config;
  config.rank = shard / worker_.num_workers_per_rank;
  return make_pipeline_({.config = config,
                         .local_index = shard % worker_.num_workers_per_rank,
                         .memory = context_.memory,
                         .batch_memory = context_.batch_memory,
                         .monitor = context_.monitor,
                         .readers = context_.readers});
}

const StateDict& RestartableStream::digests() const {
  if (!digests_) {
    digests_ = digests_of(pipeline_of(0)->config());
  }
  return *digests_;
}

std::optional<Sample> RestartableStream::next() {
  if (epoch_ended_) {
    pipeline_->next_epoch();
  }
  std::optional<Sample> batch = pipeline_->next();
  epoch_ended_ = !batch;
  if (batch) {
    samples_streamed_ += static_cast<std::int64_t>(batch->keys.size());
  }
  return batch;
}

StateDict RestartableStream::state_dict() const {
  return {{"samples_streamed", samples_streamed_},
          {"shard_index", shard_},
          {"epoch_ended", epoch_ended_},
          {"position", state_to_json(pipeline_->save_state())},
          {"dataset", digests()}};
}

void RestartableStream::load_state_dict(const StateDict& state, Strictness strictness) {
  if (other_workers_ == OtherWorkers::kReset && state.is_object() && state.empty()) {
    warnings_.push_back(
        "the state has another number of workers: starting from the beginning of the data");
    return;
  }
  std::vector<std::string> keys = {"samples_streamed", "shard_index", "epoch_ended", "position"};
  if (state.is_object() && state.contains("dataset")) {  // not in parts of a job's state
    keys.emplace_back("dataset");
    std::vector<std::string> differences;
    if (strictness == Strictness::kStrict) {
      compare_configs(state.at("dataset"), digests(), "dataset", differences);
    }
    refuse_differences(differences);
  }
  require_keys(state, keys);
  const std::int64_t shard = count_in(state, "shard_index");
  if (shard >= worker_.total_workers() || !state.at("epoch_ended").is_boolean()) {
    refuse_differences({fmt::format(
        "shard_index {}, epoch_ended {}: expected an index below {} and a boolean", shard,
        to_text(state.at("epoch_ended"), "epoch_ended"), worker_.total_workers())});
  }
  const std::int64_t samples = count_in(state, "samples_streamed");
  std::unique_ptr<Dataset> pipeline = pipeline_of(static_cast<int>(shard));
  pipeline->restore_state(state_from_json(state.at("position")));
  pipeline_ = std::move(pipeline);
  shard_ = static_cast<int>(shard);
  samples_streamed_ = samples;
  epoch_ended_ = state.at("epoch_ended");
}

StateDict RestartableStream::aggregate_state_dict(std::span<const StateDict> states) const {
  std::vector<StateDict> by_shard(states.begin(), states.end());
  std::sort(by_shard.begin(), by_shard.end(), [](const StateDict& a, const StateDict& b) {
    return count_in(a, "shard_index") < count_in(b, "shard_index");
  });
  std::vector<std::string> differences;
  for (int shard = 0; shard < worker_.total_workers(); ++shard) {
    const auto count = std::count_if(
        by_shard.begin(), by_shard.end(),
        [shard](const StateDict& state) { return count_in(state, "shard_index") == shard; });
    if (count != 1) {
      differences.push_back(fmt::format("shard {}: {} states, expected 1", shard, count));
    }
  }
  if (differences.empty() && by_shard.size() != static_cast<std::size_t>(worker_.total_workers())) {
    differences.push_back(
        fmt::format("{} states of {} shards", by_shard.size(), worker_.total_workers()));
  }
  for (StateDict& state : by_shard) {
    if (state.contains("dataset")) {
      compare_configs(state.at("dataset"), digests(),
                      fmt::format("shard {}: dataset", count_in(state, "shard_index")),
                      differences);
      state.erase("dataset");  // stored once in the state of the job
    }
  }
  refuse_differences(differences);
  return {{"__version__", kStreamStateVersion},
          {"all_worker_states", by_shard},
          {"dataset", pipeline_->config()}};
}

StateDict RestartableStream::deaggregate_state_dict(const StateDict& state,
                                                    Strictness strictness) const {
  require_keys(state, {"__version__", "all_worker_states", "dataset"});
  if (state.at("__version__") != kStreamStateVersion) {
    refuse_differences(
        {fmt::format("version {}, but this library reads {}",
                     to_text(state.at("__version__"), "the version"), kStreamStateVersion)});
  }
  const StateDict& shards = state.at("all_worker_states");
  const auto workers = static_cast<std::size_t>(worker_.total_workers());
  if (!shards.is_array() || shards.size() != workers) {
    if (shards.is_array() && other_workers_ == OtherWorkers::kReset) {
      return StateDict::object();
    }
    refuse_differences(
        {fmt::format("the state has {} workers, but this job has {}: the shards of "
                     "the data cannot be divided differently",
                     shards.size(), workers)});
  }
  if (strictness == Strictness::kStrict) {
    std::vector<std::string> differences;
    compare_configs(state.at("dataset"), pipeline_of(0)->config(), "dataset", differences);
    refuse_differences(differences);
  }
  std::size_t next = 0;  // the first shard with the fewest samples
  for (std::size_t shard = 1; shard < workers; ++shard) {
    if (count_in(shards[shard], "samples_streamed") < count_in(shards[next], "samples_streamed")) {
      next = shard;
    }
  }
  return shards[(static_cast<std::size_t>(worker_.global_worker_id()) + next) % workers];
}

}  // namespace energon
