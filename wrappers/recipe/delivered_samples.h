// Tells when a saved job delivered a sample, and which samples a step delivered.
//
//   const PipelineData data = open_data("data");
//   const auto order = [&](const Config& config) { return order_pipeline(data, options, config); };
//   const auto wanted = locate_samples(find_samples("data", "cats/0042"), data);
//   for (const Delivery& delivery : find_deliveries(job.ranks, order, wanted)) {
//     … delivery.step, delivery.rank …
//   }
//
// Computed from a state and the order, without a log (energon/loader/delivered_items.h). With an
// order pipeline nothing is read but the keys of a step.
//
// Steps are those of the state's layout, from the beginning of the run. A job that was rescaled
// counts as if it always had that layout: with logical shards set by the user its batches are the
// same, whatever ranks they went to. Steps are those of the loader: an adapter over it may have
// handed out its batches elsewhere.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/loader/delivered_items.h"
#include "energon/read/find_sample.h"
#include "energon/sample/restore_key.h"
#include "energon/sample/sample_ref.h"
#include "energon/stage/pipeline.h"
#include "energon/state/savable.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

/// A sample by its key and its place in a pipeline.
struct KeyedSample {
  std::string key;
  SampleRef reference;  ///< its repetition is 0
};

/// The places of found samples in the leaves of `data`, without duplicates, ordered by leaf and
/// index. Samples of other data have none. Throws Error as LeafDataset::open_reader().
std::vector<KeyedSample> locate_samples(std::span<const FoundSample> found,
                                        const PipelineData& data);

/// A sample in an item (a batch, or a sample where nothing is batched) that a rank delivered.
struct Delivery {
  std::string key;
  std::int64_t step = 0;  ///< number of items that this rank delivered before it, over all epochs
  int rank = 0;
  std::int64_t position = 0;  ///< of the sample in the item
  RestoreKey restore_key;     ///< of the item
};

/// The samples that a step of a rank delivered.
struct DeliveredStep {
  int rank = 0;
  std::vector<std::string> keys;
  RestoreKey restore_key;
};

/// Makes the pipeline of a state with this configuration, such as order_pipeline().
using PipelineOfConfig = std::function<PipelineFactory(const Config& config)>;
/// Called before each item. What it throws ends the computation.
using CancelCheck = std::function<void()>;

/// When the ranks delivered one of `samples` before their states: by rank, then in order. `ranks`:
/// of a job (SavableJobState::ranks), or some of them. Throws Error as DeliveredItems.
std::vector<Delivery> find_deliveries(std::span<const SavableDataLoaderState> ranks,
                                      const PipelineOfConfig& pipeline_of,
                                      std::span<const KeyedSample> samples,
                                      const CancelCheck& check_cancelled = nullptr);

/// The same for one rank, one delivery after the other. Requires: next() of `items` was not called.
void for_each_delivery(DeliveredItems& items, std::span<const KeyedSample> samples,
                       const std::function<void(const Delivery&)>& visit,
                       const CancelCheck& check_cancelled = nullptr);

/// What each rank delivers at `step`, which may come after its state. Reads the samples of the step
/// for their keys. Throws Error: kInvalidArgument if the data of a rank ends before that step, and
/// as DeliveredItems and read_samples().
std::vector<DeliveredStep> keys_of_step(std::span<const SavableDataLoaderState> ranks,
                                        const PipelineOfConfig& pipeline_of,
                                        const PipelineData& data, std::int64_t step,
                                        const CancelCheck& check_cancelled = nullptr);

/// The same for one rank. Requires: next() of `items` was not called.
DeliveredStep keys_of_step(DeliveredItems& items, const PipelineData& data, std::int64_t step,
                           const CancelCheck& check_cancelled = nullptr);

}  // namespace energon
