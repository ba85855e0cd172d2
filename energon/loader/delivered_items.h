// Which samples the steps of a saved job were made of: computed from a state and the order of the
// data, without a log.
//
//   const PipelineFactory order = order_pipeline(data, options, rank.config);
//   DeliveredItems items(rank, order);
//   while (auto item = items.next()) { … item->step, item->samples … }
//
// With an order pipeline (wrappers/recipe/order_pipeline.h) nothing is read and no function of the
// job runs. With the job's own pipeline it works for every pipeline, at the cost of making all
// items again. Samples that an error policy left out are not known to either: a job that left some
// out has other samples from there on.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/checkpoint/turns.h"
#include "energon/order/worker_config.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "energon/sample/sample_ref.h"
#include "energon/stage/pipeline.h"

namespace energon {

/// A batch (or a sample, where nothing is batched) that a rank delivered.
struct DeliveredItem {
  std::int64_t step = 0;  ///< items of this rank before it, ever
  RestoreKey restore_key = {};
  std::vector<SampleRef> samples = {};  ///< samples_in(restore_key)
};

/// The items of one rank from its first one on. Those before `rank.batch_index` were delivered, the
/// others will be. Streams go by the rules that their saved states have (is_rule()). A rank that
/// was rescaled counts as if it always had its layout: with logical shards set by the user the
/// items are the same, whatever ranks they went to. Not thread-safe.
class DeliveredItems {
 public:
  /// Throws Error (kMismatch) that lists all differences unless `pipeline` has the configuration
  /// that `rank` was saved with.
  DeliveredItems(const SavableDataLoaderState& rank, const PipelineFactory& pipeline);
  DeliveredItems(const DeliveredItems&) = delete;
  DeliveredItems& operator=(const DeliveredItems&) = delete;

  /// The next item, over all epochs; nothing if an epoch has none. Throws what the pipeline throws.
  std::optional<DeliveredItem> next();

 private:
  const WorkerConfig layout_;
  HeapBufferPool memory_;
  std::vector<std::unique_ptr<PositionedDataset>> streams_;
  Turns turns_;
  std::int64_t step_ = 0;
};

}  // namespace energon
