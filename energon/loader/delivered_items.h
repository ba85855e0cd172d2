// Tells which samples made up each step of a saved job. Computed from a state and the order of the
// data, without a log.
//
//   const PipelineFactory order = order_pipeline(data, options, rank.config);
//   DeliveredItems items(rank, order);
//   while (auto item = items.next()) { … item->step, item->samples … }
//
// With an order pipeline (wrappers/recipe/order_pipeline.h), no data is read and none of the job's
// functions run. Every job can pass its own pipeline instead, at the cost of making all items
// again. Neither way knows which samples an error policy left out: if the job left some out, its
// real samples differ from there on.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/checkpoint/turns.h"
#include "energon/order/worker_config.h"
#include "energon/sample/batch_memory.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "energon/sample/sample_ref.h"
#include "energon/stage/pipeline.h"

namespace energon {

/// A batch (or a sample, where nothing is batched) that a rank delivered.
struct DeliveredItem {
  std::int64_t step = 0;  ///< number of items that this rank delivered before it, over all epochs
  RestoreKey restore_key = {};
  std::vector<SampleRef> samples = {};  ///< samples_in(restore_key)
};

/// The items of one rank, starting at its first. Items before `rank.batch_index` were delivered;
/// later ones will be. Each stream follows the rules in its saved state (is_rule()). A rescaled
/// rank counts as if it had always had its present layout. If the user set the number of logical
/// shards, the items are the same, whichever ranks received them. Not thread-safe.
class DeliveredItems {
 public:
  /// Throws Error (kMismatch), with all differences, unless `pipeline` has the configuration that
  /// `rank` was saved with.
  DeliveredItems(const SavableDataLoaderState& rank, const PipelineFactory& pipeline);
  DeliveredItems(const DeliveredItems&) = delete;
  DeliveredItems& operator=(const DeliveredItems&) = delete;

  /// The next item, continuing through all epochs; nothing if an epoch has no items. Throws what
  /// the pipeline throws.
  std::optional<DeliveredItem> next();

  int rank() const { return layout_.rank; }
  /// How many items the rank had delivered when its state was saved.
  std::int64_t delivered() const { return delivered_; }

 private:
  const WorkerConfig layout_;
  const std::int64_t delivered_;
  HeapBufferPool memory_;
  const std::shared_ptr<BatchMemory> made_ = std::make_shared<BatchMemory>(memory_);
  std::vector<std::unique_ptr<PositionedDataset>> streams_;
  Turns turns_;
  std::int64_t step_ = 0;
};

}  // namespace energon
