#include "energon/loader/delivered_items.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/positioned_dataset.h"
#include "energon/checkpoint/state_config.h"
#include "io/error.h"

namespace energon {
namespace {

// Failures may make an epoch empty, so the data ends only after several empty epochs.
constexpr int kMostEmptyEpochs = 100;

constexpr std::string_view kReadSamples = "ReadSamples";

std::string_view type_of(const Config& node) {
  const auto type = node.is_object() ? node.find("type") : node.end();
  return type != node.end() && type->is_string() ? type->get_ref<const std::string&>()
                                                 : std::string_view();
}

const Config* member(const Config& node, const char* name) {
  const auto found = node.find(name);
  return found != node.end() ? &*found : nullptr;
}

// Whether the order of this configuration repeats its data forever, so that all batches are full.
bool is_endless(const Config& order) {
  const std::string_view type = type_of(order);
  const Config* const inner = member(order, "inner");
  if (type == "Repeat") {
    const Config* const repetitions = member(order, "repetitions");
    return repetitions != nullptr && repetitions->is_null();
  }
  if (type == "ShuffleBuffer") {
    return inner != nullptr && is_endless(*inner);
  }
  if (type == "Blend" || type == "ShareBlend") {
    return inner != nullptr && std::all_of(inner->begin(), inner->end(), [](const Config& leaf) {
             const Config* const order_of_leaf = member(leaf, "order");
             return order_of_leaf != nullptr && is_endless(*order_of_leaf);
           });
  }
  return false;
}

// The stages of a pipeline, outermost first, up to the one for which `is_found` returns true; null
// if there is none.
template <class IsFound>
const Config* find_stage(const Config& config, IsFound is_found) {
  const Config* node = member(config, "pipeline");
  while (node != nullptr && node->is_object() && !is_found(*node)) {
    node = member(*node, "inner");
  }
  return node != nullptr && node->is_object() ? node : nullptr;
}

bool has_endless_order(const Config& config) {
  const Config* const read =
      find_stage(config, [](const Config& stage) { return type_of(stage) == kReadSamples; });
  const Config* const order = read != nullptr ? member(*read, "order") : nullptr;
  return order != nullptr && is_endless(*order);
}

// Limit begins each epoch at the start of the data; a batch that is not full is dropped.
bool hides_left_out(const Config& config) {
  return find_stage(config, [](const Config& stage) {
           const Config* const remainder = member(stage, "remainder");
           return type_of(stage) == "Limit" || (remainder != nullptr && *remainder == "drop");
         }) != nullptr;
}

// Whether an epoch may hold the ends of inner ones.
bool repeats_epochs(const Config& config) {
  return find_stage(config, [](const Config& stage) { return type_of(stage) == "RepeatEpochs"; }) !=
         nullptr;
}

// The part of a pipeline's state that determines which samples were drawn; the whole state if the
// pipeline does not read by an order.
const State& order_in(const State& state) {
  const State* node = &state;
  while (node->type != kReadSamples) {
    if (node->children.size() != 1) {
      return state;
    }
    node = &node->children.front();
  }
  return *node;
}

SavableDatasetCheckpoint saved_stream(const SavableDataLoaderState& rank, int logical_shard) {
  const auto saved = std::find_if(rank.checkpoints.begin(), rank.checkpoints.end(),
                                  [logical_shard](const SavableDatasetCheckpoint& checkpoint) {
                                    return checkpoint.logical_shard == logical_shard;
                                  });
  if (saved != rank.checkpoints.end()) {
    return *saved;
  }
  SavableDatasetCheckpoint start;
  start.logical_shard = logical_shard;
  return start;
}

}  // namespace

std::int64_t delivered_items(const SavableDataLoaderState& rank) {
  std::int64_t sum = 0;
  for (const SavableDatasetCheckpoint& logical_shard : rank.checkpoints) {
    sum += logical_shard.index + logical_shard.offset;
  }
  return sum;
}

DeliveredItems::DeliveredItems(const SavableDataLoaderState& rank, PipelineFactory pipeline,
                               From from)
    : layout_(layout_of(rank.config)),
      delivered_(delivered_items(rank)),
      make_pipeline_(std::move(pipeline)),
      is_endless_(has_endless_order(rank.config)),
      repeats_epochs_(repeats_epochs(rank.config)),
      hides_left_out_(hides_left_out(rank.config)) {
  std::vector<std::string> differences;
  compare_configs(state_config(make_pipeline_, layout_), rank.config, "", differences);
  if (!differences.empty()) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("the state was saved with other data or options; pass the same ones:\n  {}",
                    fmt::join(differences, "\n  ")));
  }
  std::vector<Turn> turns;
  for (int logical_shard = 0; logical_shard < layout_.logical_shards_per_rank(); ++logical_shard) {
    add_logical_shard(rank, from);
    turns.push_back(from == From::kState ? logical_shards_.back().saved.turn : Turn());
  }
  turns_ = Turns(std::move(turns), from == From::kState ? rank.epoch : 0);
  step_ = from == From::kState ? delivered_ : 0;
}

PipelineContext DeliveredItems::context(std::size_t local_index) {
  return {.config = layout_,
          .local_index = static_cast<int>(local_index),
          .memory = memory_,
          .batch_memory = batch_memory_,
          .readers = readers_};
}

void DeliveredItems::add_logical_shard(const SavableDataLoaderState& rank, From from) {
  const std::size_t number = logical_shards_.size();
  LogicalShard& logical_shard = logical_shards_.emplace_back();
  logical_shard.saved = saved_stream(rank, layout_.logical_shard(static_cast<int>(number)));
  logical_shard.dataset = std::make_unique<PositionedDataset>(make_pipeline_(context(number)));
  if (from == From::kState) {
    logical_shard.dataset->restore(logical_shard.saved, logical_shard.saved.turn.epoch);
  } else if (logical_shard.delivered() > 0) {
    ++unproven_;
  }
}

std::optional<DeliveredItem> DeliveredItems::next() {
  for (int epochs = 0; epochs < kMostEmptyEpochs; ++epochs) {
    while (const std::optional<std::size_t> number = turns_.next()) {
      LogicalShard& logical_shard = logical_shards_[*number];
      const std::optional<Sample> item =
          logical_shard.dataset->next(logical_shard.saved.logical_shard, turns_.of(*number).epoch);
      batch_memory_->end_batch();
      if (!item) {
        turns_.end_epoch(*number);
        continue;
      }
      turns_.take(*number);
      DeliveredItem delivered{step_++, item->restore_key, samples_in(item->restore_key)};
      if (unproven_ > 0) {
        count(logical_shard, *item, delivered.samples.size());
        check_produced(*number);
      }
      return delivered;
    }
    turns_.start_epoch();
  }
  for (std::size_t number = 0; unproven_ > 0 && number < logical_shards_.size(); ++number) {
    if (logical_shards_[number].dataset->index() < logical_shards_[number].delivered()) {
      refuse(number, fmt::format("its data ends after {} recomputed items",
                                 logical_shards_[number].dataset->index()));
    }
  }
  return std::nullopt;
}

void DeliveredItems::count(LogicalShard& logical_shard, const Sample& item,
                           std::size_t samples) const {
  if (logical_shard.item_size == 0) {
    logical_shard.item_size = samples;
  }
  logical_shard.is_uniform = logical_shard.is_uniform && samples == logical_shard.item_size;
  if (item.keys.empty()) {
    logical_shard.has_keys = false;
    logical_shard.produced.samples += static_cast<std::int64_t>(samples);
  } else {
    extend(logical_shard.produced, item);
  }
}

// Called after each item of a logical shard, as long as some are unproven.
void DeliveredItems::check_produced(std::size_t number) {
  const LogicalShard& logical_shard = logical_shards_[number];
  const std::int64_t produced = logical_shard.dataset->index();
  if (produced > logical_shard.delivered()) {
    refuse(number, "there are more recomputed items");
  }
  if (produced < logical_shard.delivered()) {
    return;
  }
  const Certificate& saved = logical_shard.saved.certificate;
  const bool is_certified = saved.samples > 0;
  if (is_certified && logical_shard.has_keys) {
    if (logical_shard.produced != saved) {
      refuse(number,
             logical_shard.produced.samples == saved.samples
                 ? std::string("the recomputed items have different samples")
                 : fmt::format("the recomputed items have {}", logical_shard.produced.samples));
    }
  } else {
    check_position(number);
  }
  --unproven_;
}

// Compares without the keys of the samples. At the same place of the order, the same number of
// samples was drawn; if the same number was delivered, none was left out.
void DeliveredItems::check_position(std::size_t number) {
  const LogicalShard& logical_shard = logical_shards_[number];
  const std::int64_t samples = logical_shard.saved.certificate.samples;
  const Position position = compare_positions(number);
  if (position == Position::kDifferent) {
    refuse(number, "the recomputed order is at a different place");
  }
  if (is_endless_) {
    return;  // all batches are full, so the same number was delivered
  }
  const bool has_ended_epoch =
      position == Position::kSameEnd || logical_shard.saved.turn.epoch > 0 || repeats_epochs_;
  if (samples == 0 && (has_ended_epoch || !logical_shard.is_uniform)) {
    refuse(number, "its state has no certificate, so it may have left out samples");
  }
  if (samples > 0 && samples != logical_shard.produced.samples) {
    refuse(number, fmt::format("the recomputed items have {}", logical_shard.produced.samples));
  }
  if (has_ended_epoch && hides_left_out_) {
    refuse(number, "the order alone does not show whether its epochs left out samples");
  }
}

DeliveredItems::Position DeliveredItems::compare_positions(std::size_t number) {
  const LogicalShard& logical_shard = logical_shards_[number];
  SavableDatasetCheckpoint produced = logical_shard.dataset->checkpoint();
  produced.turn = logical_shard.saved.turn;
  try {
    const std::unique_ptr<PositionedDataset> saved_position = restored(number, logical_shard.saved);
    const State saved = order_in(saved_position->dataset().save_state());
    const std::unique_ptr<PositionedDataset> position = restored(number, produced);
    if (order_in(position->dataset().save_state()) == saved) {
      return Position::kSame;
    }
    // The job may have seen the end of the epoch.
    const bool is_end =
        !position->next(logical_shard.saved.logical_shard, logical_shard.saved.turn.epoch);
    return is_end && order_in(position->dataset().save_state()) == saved ? Position::kSameEnd
                                                                         : Position::kDifferent;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kMismatch) {
      return Position::kDifferent;
    }
    throw;
  }
}

std::unique_ptr<PositionedDataset> DeliveredItems::restored(
    std::size_t number, const SavableDatasetCheckpoint& checkpoint) {
  return restored_pipeline(make_pipeline_, context(number), checkpoint, checkpoint.turn.epoch);
}

void DeliveredItems::refuse(std::size_t number, std::string_view difference) const {
  const LogicalShard& logical_shard = logical_shards_[number];
  const std::int64_t samples = logical_shard.saved.certificate.samples;
  throw Error(
      ErrorCode::kMismatch,
      fmt::format(
          "rank {}: the recomputed items differ from those that the job delivered. Logical shard "
          "{} had delivered {} items{} when the state was saved, but {}. Either the job left "
          "out samples (by an error policy, SkipSample or exclude_files) that are not left out "
          "here, or the other way around, or its functions make different items now",
          layout_.rank, logical_shard.saved.logical_shard, logical_shard.delivered(),
          samples > 0 ? fmt::format(" with {} samples", samples) : "", difference));
}

}  // namespace energon
