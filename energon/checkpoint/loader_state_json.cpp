#include "energon/checkpoint/loader_state_json.h"

#include <charconv>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "energon/order/worker_config.h"
#include "energon/state/state_json.h"
#include "io/hash.h"

namespace energon {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kHexDigits = 16;

// All of a state but the states of the pipelines, which get `state_form`.
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
                       {"worker_states", ordered_json::array()}};
  for (const SavableDatasetCheckpoint& worker : state.streams) {
    json["worker_states"].push_back(
        {{"logical_shard", worker.logical_shard},
         {"turn", {{"epoch", worker.turn.epoch}, {"count", worker.turn.count}}},
         {"certificate", to_hex(worker.certificate.digest)},
         {"samples", worker.certificate.samples},
         {"index", worker.index},
         {"epoch", worker.epoch},
         {"offset", worker.offset},
         {"state", worker.state ? state_form(*worker.state) : ordered_json(nullptr)}});
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
    json.fail("16 hexadecimal digits are expected");
  }
  return digest;
}

SavableDatasetCheckpoint worker_from(const JsonReader& json) {
  json.require_only(
      {"logical_shard", "turn", "certificate", "samples", "index", "epoch", "offset", "state"});
  const JsonReader turn = json.member("turn");
  turn.require_only({"epoch", "count"});
  const JsonReader logical_shard = json.member("logical_shard");
  if (logical_shard.count() >= kMaxLogicalShards) {
    logical_shard.fail("there are not so many logical shards");
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
                       "micro_batch_size", "worker_states", "adapters", "config"});
  SavableDataLoaderState state;
  state.batch_index = reader.member("batch_index").count();
  state.step_in_epoch = count_or_null(reader.member("step_in_epoch"));
  state.epoch = reader.member("epoch").count();
  state.epoch_finished = reader.member("epoch_finished").boolean();
  state.micro_batch_size = count_or_null(reader.member("micro_batch_size"));
  for (const JsonReader& worker : reader.member("worker_states").elements()) {
    state.streams.push_back(worker_from(worker));
  }
  state.next_worker_id = reader.member("next_worker_id").count();
  if (const auto adapters = reader.find("adapters")) {
    for (const JsonReader& adapter : adapters->elements()) {
      state.adapters.push_back(state_from_json(adapter.json(), adapter.path()));
    }
  }
  const JsonReader config = reader.member("config");
  config.member("pipeline");  // only the parts of a flat state have none
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

}  // namespace energon
