#include "energon/checkpoint/state_forms.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/state_config.h"
#include "energon/order/worker_config.h"
#include "energon/state/state_json.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {

// --- Flat map ---

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
  for (const SavableDatasetCheckpoint& checkpoint : rank.checkpoints) {
    SavableDataLoaderState alone = rank;
    alone.config = Config::object();
    alone.checkpoints = {checkpoint};
    alone.next_worker_id = 0;
    flat[shard_name(checkpoint.logical_shard)] = to_tensor(encode_loader_state(alone));
  }
}

Config config_of(const FlatState& state) {
  const auto found = state.find(kConfigName);
  if (found == state.end()) {
    throw Error(ErrorCode::kMismatch, fmt::format("expected a name '{}'", kConfigName));
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

// The logical shards of the rank of `layout`, each as the state of a rank with this one only.
std::vector<SavableDataLoaderState> shards_of_rank(const FlatState& state,
                                                   const WorkerConfig& layout) {
  std::vector<std::string> missing;
  std::vector<SavableDataLoaderState> shards;
  for (int local_index = 0; local_index < layout.logical_shards_per_rank(); ++local_index) {
    const std::string name = shard_name(layout.logical_shard(local_index));
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

// Joins the logical shards of `rank`, which must be at the same step.
SavableDataLoaderState join_shards(const std::vector<SavableDataLoaderState>& shards, int rank) {
  SavableDataLoaderState whole = shards.front();
  whole.checkpoints.clear();
  for (const SavableDataLoaderState& shard : shards) {
    if (shard.batch_index != whole.batch_index || shard.epoch != whole.epoch) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("logical shards of rank {} are at different steps: {} and {}", rank,
                              whole.batch_index, shard.batch_index));
    }
    whole.checkpoints.push_back(shard.checkpoints.front());
  }
  whole.next_worker_id = next_worker_id_of(whole);
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
                fmt::format("the state belongs to a job of {} ranks and has no rank {}",
                            layout.world_size, rank));
  }
  layout.rank = rank;
  SavableDataLoaderState whole = join_shards(shards_of_rank(state, layout), rank);
  whole.config = config_of_rank(job_config, rank);
  check_loader_state(whole, "state");
  return whole;
}

// --- JSON ---

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kHexDigits = 16;

// All of a state; `state_form` converts the states of the pipelines.
template <class StateForm>
ordered_json position_json(const SavableDataLoaderState& state, const StateForm& state_form) {
  const auto or_null = [](const std::optional<std::int64_t>& number) {
    return number ? ordered_json(*number) : ordered_json(nullptr);
  };
  ordered_json json = {{"batch_index", state.batch_index},
                       {"step_in_epoch", or_null(state.step_in_epoch)},
                       {"epoch", state.epoch},
                       {"epoch_finished", state.epoch_finished},
                       {"next_worker_id", state.next_worker_id},
                       {"micro_batch_size", or_null(state.micro_batch_size)},
                       {"checkpoints", ordered_json::array()}};
  for (const SavableDatasetCheckpoint& checkpoint : state.checkpoints) {
    json["checkpoints"].push_back(
        {{"logical_shard", checkpoint.logical_shard},
         {"turn", {{"epoch", checkpoint.turn.epoch}, {"count", checkpoint.turn.count}}},
         {"certificate", to_hex(checkpoint.certificate.digest)},
         {"samples", checkpoint.certificate.samples},
         {"index", checkpoint.index},
         {"epoch", checkpoint.epoch},
         {"offset", checkpoint.offset},
         {"state", checkpoint.state ? state_form(*checkpoint.state) : ordered_json(nullptr)}});
  }
  if (!state.adapters.empty()) {
    json["adapters"] = ordered_json::array();
    for (const State& adapter : state.adapters) {
      json["adapters"].push_back(state_form(adapter));
    }
  }
  json["config"] = state.config;
  return json;
}

std::optional<std::int64_t> count_or_null(const JsonReader& json) {
  return json.is_null() ? std::nullopt : std::optional(json.count());
}

std::uint64_t digest_from(const JsonReader& json) {
  const std::string& text = json.text();
  std::uint64_t digest = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != kHexDigits) {
    json.fail("expected 16 hexadecimal digits");
  }
  return digest;
}

SavableDatasetCheckpoint checkpoint_from(const JsonReader& json) {
  json.require_only(
      {"logical_shard", "turn", "certificate", "samples", "index", "epoch", "offset", "state"});
  const JsonReader turn = json.member("turn");
  turn.require_only({"epoch", "count"});
  const JsonReader logical_shard = json.member("logical_shard");
  if (logical_shard.count() >= kMaxLogicalShards) {
    logical_shard.fail("expected a valid logical shard");
  }
  SavableDatasetCheckpoint worker;
  worker.logical_shard = static_cast<int>(logical_shard.count());
  worker.turn = {.epoch = turn.member("epoch").count(), .count = turn.member("count").count()};
  worker.certificate = {.digest = digest_from(json.member("certificate")),
                        .samples = json.member("samples").count()};
  worker.index = json.member("index").count();
  worker.epoch = json.member("epoch").count();
  worker.offset = json.member("offset").count();
  if (const JsonReader state = json.member("state"); !state.is_null()) {
    worker.state = state_from_json(state.json(), state.path());
  }
  return worker;
}

}  // namespace

ordered_json loader_state_to_json(const SavableDataLoaderState& state) {
  return position_json(state, state_to_json);
}

SavableDataLoaderState loader_state_from_json(const ordered_json& json, const std::string& path) {
  check_depth(json, path);
  const JsonReader reader(json, path);
  reader.require_only({"batch_index", "step_in_epoch", "epoch", "epoch_finished", "next_worker_id",
                       "micro_batch_size", "checkpoints", "adapters", "config"});
  SavableDataLoaderState state;
  state.batch_index = reader.member("batch_index").count();
  state.step_in_epoch = count_or_null(reader.member("step_in_epoch"));
  state.epoch = reader.member("epoch").count();
  state.epoch_finished = reader.member("epoch_finished").boolean();
  state.micro_batch_size = count_or_null(reader.member("micro_batch_size"));
  for (const JsonReader& worker : reader.member("checkpoints").elements()) {
    state.checkpoints.push_back(checkpoint_from(worker));
  }
  state.next_worker_id = reader.member("next_worker_id").count();
  if (const auto adapters = reader.find("adapters")) {
    for (const JsonReader& adapter : adapters->elements()) {
      state.adapters.push_back(state_from_json(adapter.json(), adapter.path()));
    }
  }
  const JsonReader config = reader.member("config");
  config.member("pipeline");  // optional only in the parts of a flat state
  state.config = config.json();
  check_loader_state(state, path);
  return state;
}

ordered_json describe_loader_state(const SavableDataLoaderState& state) {
  const Certificate certificate = certificate_of(state);
  ordered_json json = {{"certificate", to_hex(certificate.digest)},
                       {"samples", certificate.samples}};
  json.update(position_json(state, describe_state));
  return json;
}

// --- Tree ---

namespace {

constexpr const char* kLoader = "Loader";

// A count in the position of a source that is not a loader; 0 if the source does not count.
std::int64_t counter(const State& node, std::string_view name) {
  const auto found = std::find_if(node.fields.begin(), node.fields.end(),
                                  [name](const auto& field) { return field.first == name; });
  const auto* value =
      found == node.fields.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return value != nullptr && *value >= 0 ? *value : 0;
}

SavableDataLoaderState from_innermost(const State& node) {
  if (node.type == kLoader) {
    return decode_loader_state(node.bytes("state"));
  }
  return source_state(node, {counter(node, "epoch"), counter(node, "batches")});
}

}  // namespace

State to_tree(const SavableDataLoaderState& state) {
  State tree;
  if (const State* position = source_position(state)) {
    tree = *position;
  } else {
    SavableDataLoaderState loader = state;
    loader.adapters.clear();
    tree = {kLoader, {{"state", encode_loader_state(loader)}}, {}};
  }
  for (auto adapter = state.adapters.rbegin(); adapter != state.adapters.rend(); ++adapter) {
    State outer = *adapter;
    outer.children.push_back(std::move(tree));
    tree = std::move(outer);
  }
  return tree;
}

SavableDataLoaderState from_tree(const State& tree) {
  std::vector<State> adapters;
  const State* node = &tree;
  for (; !node->children.empty(); node = &node->children.front()) {
    if (node->children.size() > 1) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("{}: {} inner states, expected one for an adapter", node->type,
                              node->children.size()));
    }
    adapters.push_back({node->type, node->fields, {}});
  }
  SavableDataLoaderState state = from_innermost(*node);
  if (!state.adapters.empty()) {
    throw Error(ErrorCode::kMismatch, "the state of the innermost loader has adapters");
  }
  state.adapters = std::move(adapters);
  check_loader_state(state, "state");
  return state;
}

}  // namespace energon
