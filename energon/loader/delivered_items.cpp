#include "energon/loader/delivered_items.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/start_rules.h"
#include "energon/checkpoint/state_config.h"
#include "io/error.h"

namespace energon {

DeliveredItems::DeliveredItems(const SavableDataLoaderState& rank, const PipelineFactory& pipeline)
    : layout_(layout_of(rank.config)), delivered_(rank.batch_index) {
  std::vector<std::string> differences;
  compare_configs(state_config(pipeline, layout_), rank.config, "", differences);
  if (!differences.empty()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state was saved with other data or options; give those:\n  {}",
                            fmt::join(differences, "\n  ")));
  }
  const auto readers = make_leaf_readers();
  const int streams = layout_.stream_count();
  for (int stream = 0; stream < streams; ++stream) {
    auto dataset = pipeline({.config = layout_,
                             .stream = stream,
                             .memory = memory_,
                             .made = made_,
                             .readers = readers});
    const auto saved = std::find_if(
        rank.streams.begin(), rank.streams.end(),
        [shard = layout_.logical_shard(stream)](const SavableDatasetCheckpoint& checkpoint) {
          return checkpoint.logical_shard == shard;
        });
    const auto start = start_under_rules_of(
        saved == rank.streams.end() ? SavableDatasetCheckpoint() : *saved, rank.config, *dataset);
    if (start) {
      dataset->restore_state(*start);
    }
    streams_.push_back(std::make_unique<PositionedDataset>(std::move(dataset)));
  }
  turns_ = Turns(std::vector<Turn>(streams_.size()), 0);
}

std::optional<DeliveredItem> DeliveredItems::next() {
  for (int epochs = 0; epochs < 2; ++epochs) {
    while (const std::optional<std::size_t> stream = turns_.next()) {
      const std::optional<Sample> item = streams_[*stream]->next(
          layout_.logical_shard(static_cast<int>(*stream)), turns_.of(*stream).epoch);
      made_->end_batch();
      if (item) {
        turns_.take(*stream);
        return DeliveredItem{step_++, item->restore_key, samples_in(item->restore_key)};
      }
      turns_.end_epoch(*stream);
    }
    turns_.start_epoch();
  }
  return std::nullopt;
}

}  // namespace energon
