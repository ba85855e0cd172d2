#include "energon/checkpoint/flat_state.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/checkpoint/turns.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr const char* kConfigName = "energon/config";

std::string shard_name(int logical_shard) {
  return fmt::format("energon/logical_shard/{}", logical_shard);
}

Tensor to_tensor(const std::string& text) {
  const auto owner = std::make_shared<const std::string>(text);
  return {.dtype = DType::kUInt8,
          .shape = {std::ssize(*owner)},
          .data = SharedBytes{as_bytes(*owner), owner}};
}

void add_rank(const SavableDataLoaderState& rank, FlatState& flat) {
  Config config = rank.config;
  config.erase("rank");
  flat[kConfigName] = to_tensor(dump_config(config));
  for (const SavableDatasetCheckpoint& shard : rank.streams) {
    SavableDataLoaderState alone = rank;
    alone.config = Config::object();
    alone.streams = {shard};
    alone.next_worker_id = 0;
    flat[shard_name(shard.logical_shard)] = to_tensor(encode_loader_state(alone));
  }
}

Config config_of(const FlatState& state) {
  const auto found = state.find(kConfigName);
  if (found == state.end()) {
    throw Error(ErrorCode::kMismatch, fmt::format("the name '{}' is missing", kConfigName));
  }
  Config config = Config::parse(as_text(found->second.data.view), nullptr, false);
  if (!config.is_object() || !config.contains("pipeline")) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("'{}' is not the configuration of a job", kConfigName));
  }
  check_config(config, kConfigName);
  return config;
}

// The configuration of `rank`, with the members in the order of a rank's own state.
Config config_of_rank(const Config& job_config, int rank) {
  Config config = {{"rank", rank}};
  config.update(job_config);
  config["rank"] = rank;
  return config;
}

// The logical shards of the rank of `layout`, each as the state of a rank that has only this one.
std::vector<SavableDataLoaderState> shards_of_rank(const FlatState& state,
                                                   const WorkerConfig& layout) {
  std::vector<std::string> missing;
  std::vector<SavableDataLoaderState> shards;
  for (int stream = 0; stream < layout.stream_count(); ++stream) {
    const std::string name = shard_name(layout.logical_shard(stream));
    const auto found = state.find(name);
    if (found == state.end()) {
      missing.push_back(name);
      continue;
    }
    try {
      shards.push_back(decode_loader_state(as_text(found->second.data.view)));
    } catch (Error& error) {
      error.with({.path = name});
      throw;
    }
  }
  if (!missing.empty()) {
    throw Error(ErrorCode::kMismatch, fmt::format("names of rank {} are missing: {}", layout.rank,
                                                  fmt::join(missing, ", ")));
  }
  return shards;
}

// Joins the logical shards of `rank`, which must be of one step.
SavableDataLoaderState join_shards(const std::vector<SavableDataLoaderState>& shards, int rank) {
  SavableDataLoaderState whole = shards.front();
  whole.streams.clear();
  std::vector<Turn> turns;
  for (const SavableDataLoaderState& shard : shards) {
    if (shard.batch_index != whole.batch_index || shard.epoch != whole.epoch) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("logical shards of rank {} are of different steps: {} and {}", rank,
                              whole.batch_index, shard.batch_index));
    }
    whole.streams.push_back(shard.streams.front());
    turns.push_back(whole.streams.back().turn);
  }
  whole.next_worker_id =
      static_cast<std::int64_t>(Turns(std::move(turns), whole.epoch).next().value_or(0));
  return whole;
}

}  // namespace

FlatState flatten_state(const SavableDataLoaderState& rank) {
  FlatState flat;
  add_rank(rank, flat);
  return flat;
}

FlatState flatten_state(const SavableJobState& job) {
  FlatState flat;
  for (const SavableDataLoaderState& rank : job.ranks) {
    add_rank(rank, flat);
  }
  return flat;
}

SavableDataLoaderState unflatten_state(const FlatState& state, int rank) {
  const Config job_config = config_of(state);
  WorkerConfig layout = layout_of(job_config);
  if (rank < 0 || rank >= layout.world_size) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state is of a job of {} ranks, it has none for rank {}",
                            layout.world_size, rank));
  }
  layout.rank = rank;
  SavableDataLoaderState whole = join_shards(shards_of_rank(state, layout), rank);
  whole.config = config_of_rank(job_config, rank);
  check_loader_state(whole, "state");
  return whole;
}

}  // namespace energon
