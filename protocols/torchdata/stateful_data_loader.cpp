#include "protocols/torchdata/stateful_data_loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/state_forms.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/state/state_json.h"
#include "io/error.h"

namespace energon {

// --- States of sources as JSON ---

namespace {

using nlohmann::ordered_json;

constexpr const char* kLoader = "Loader";

void show_loaders(const State& state, ordered_json& json) {
  if (state.type == kLoader) {
    const SavableDataLoaderState loader = decode_loader_state(state.bytes("state"));
    json = {{"type", kLoader}, {"loader", loader_state_to_json(loader)}};
    return;
  }
  for (std::size_t i = 0; i < state.children.size(); ++i) {
    show_loaders(state.children[i], json["inner"][i]);
  }
}

// Replaces the readable form of the loaders with the plain one.
void hide_loaders(ordered_json& json, const std::string& path) {
  const JsonReader reader(json, path);
  if (const auto loader = reader.find("loader")) {
    reader.require_only({"type", "loader"});
    if (reader.member("type").text() != kLoader) {
      reader.member("type").fail("only the state of a Loader has 'loader'");
    }
    json = state_to_json(
        {kLoader,
         {{"state", encode_loader_state(loader_state_from_json(loader->json(), loader->path()))}},
         {}});
    return;
  }
  if (const auto inner = reader.find("inner")) {
    const std::vector<JsonReader> children = inner->elements();
    for (std::size_t i = 0; i < children.size(); ++i) {
      hide_loaders(json["inner"][i], children[i].path());
    }
  }
}

}  // namespace

ordered_json source_state_to_json(const SavableDataLoaderState& state) {
  const State tree = to_tree(state);
  ordered_json json = state_to_json(tree);
  show_loaders(tree, json);
  return json;
}

SavableDataLoaderState source_state_from_json(const ordered_json& json, const std::string& path) {
  check_depth(json, path);
  ordered_json plain = json;
  hide_loaders(plain, path);
  return from_tree(state_from_json(plain, path));
}

// --- StatefulDataLoader ---

namespace {

constexpr std::int64_t kStateDictVersion = 1;

std::shared_ptr<BatchSource> make_source(PipelineFactory make_pipeline, LoaderOptions options,
                                         const StatefulOptions& stateful) {
  if (options.checkpoint_every_batches) {
    throw Error(ErrorCode::kInvalidArgument,
                "checkpoint_every_batches is set; set snapshot_every_n_steps instead");
  }
  const std::int64_t steps = stateful.snapshot_every_n_steps;
  if (steps < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("snapshot_every_n_steps is {}, but must be at least 0", steps));
  }
  // Each stream counts its own batches, and they take turns.
  const std::int64_t streams = std::max(1, options.worker_config.logical_shards_per_rank());
  options.checkpoint_every_batches = steps == 0 ? 0 : std::max<std::int64_t>(1, steps / streams);
  return std::make_shared<SavableDataLoader>(std::move(make_pipeline), options);
}

}  // namespace

StatefulDataLoader::StatefulDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options,
                                       const StatefulOptions& stateful)
    : StatefulDataLoader(make_source(std::move(make_pipeline), options, stateful), stateful) {}

StatefulDataLoader::StatefulDataLoader(std::shared_ptr<BatchSource> source,
                                       const StatefulOptions& options)
    : source_(std::move(source)),
      options_(options),
      initial_{.steps = 0, .source = source_->save_state_rank(), .epoch_start = std::nullopt} {}

void StatefulDataLoader::iterate() {
  if (loaded_) {
    if (loaded_->epoch_start) {
      try {
        stop_and_restore(*source_, *loaded_->epoch_start);  // so that a later iterate() can
      } catch (Error& error) {
        error.with({.path = "epoch_start"});
        throw;
      }
    }
    stop_and_restore(*source_, loaded_->source);
    steps_ = loaded_->steps;
    epoch_start_ = loaded_->epoch_start.value_or(loaded_->source);
    loaded_.reset();
    begun_ = steps_ > 0;
  } else if (pass_ != Pass::kUnderWay) {
    epoch_start_ = source_->save_state_rank();
    steps_ = 0;
    begun_ = false;
  } else if (begun_) {
    stop_and_restore(*source_, epoch_start_);
    steps_ = 0;
    begun_ = false;
  }
  pass_ = Pass::kUnderWay;
}

std::optional<Sample> StatefulDataLoader::next() {
  if (pass_ == Pass::kNone) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "no pass was started since the loader was created or a state was loaded; call iterate()");
  }
  if (pass_ == Pass::kEnded) {
    return std::nullopt;
  }
  begun_ = true;
  std::optional<Sample> batch = source_->next();
  if (batch) {
    ++steps_;
    return batch;
  }
  pass_ = Pass::kEnded;
  steps_ = 0;
  if (!options_.persistent_workers) {
    source_->stop();
  }
  return std::nullopt;
}

StatefulDataLoader::Position StatefulDataLoader::position() {
  if (loaded_) {
    return *loaded_;
  }
  Position position{
      .steps = steps_, .source = source_->save_state_rank(), .epoch_start = std::nullopt};
  if (steps_ > 0) {
    position.epoch_start = epoch_start_;
  }
  return position;
}

ordered_json StatefulDataLoader::state_dict() { return to_json(position()); }

void StatefulDataLoader::load_state_dict(const ordered_json& dict) {
  loaded_ = dict.empty() ? initial_ : from_json(dict);
  pass_ = Pass::kNone;
}

ordered_json StatefulDataLoader::to_json(const Position& position) {
  ordered_json dict = {{"version", kStateDictVersion},
                       {"steps", position.steps},
                       {"source", source_state_to_json(position.source)}};
  if (position.epoch_start) {
    dict["epoch_start"] = source_state_to_json(*position.epoch_start);
  }
  return dict;
}

StatefulDataLoader::Position StatefulDataLoader::from_json(const ordered_json& dict) {
  const JsonReader reader(dict, "state_dict");
  const std::int64_t version = reader.member("version").count();
  if (version != kStateDictVersion) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the state_dict has version {}, but this program reads version {}",
                            version, kStateDictVersion));
  }
  reader.require_only({"version", "steps", "source", "epoch_start"});
  const auto source_state = [](const JsonReader& json) {
    return source_state_from_json(json.json(), json.path());
  };
  Position position;
  position.steps = reader.member("steps").count();
  position.source = source_state(reader.member("source"));
  if (const auto epoch_start = reader.find("epoch_start")) {
    position.epoch_start = source_state(*epoch_start);
  }
  if (position.epoch_start.has_value() != (position.steps > 0)) {
    reader.fail("'epoch_start' is only allowed in positions after the first step");
  }
  return position;
}

}  // namespace energon
