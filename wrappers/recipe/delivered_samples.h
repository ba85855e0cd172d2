// Computes when a saved job delivered a sample, and which samples a step delivered.
//
//   const PipelineData data = open_data("data");
//   const auto order = [&](const Config& config) { return order_pipeline(data, options, config); };
//   const auto own = [&](const Config&) { return train_pipeline(data, options); };
//   const auto wanted = locate_samples(find_samples("data", "cats/0042"), data);
//   for (const Delivery& delivery : find_deliveries(job.ranks, {order, own}, wanted)) {
//     … delivery.step, delivery.rank …
//   }
//
// Computed from a state and pipelines, without a log (energon/loader/delivered_items.h). With an
// order pipeline, only the keys of a step are read. If the job skipped samples, its own pipeline
// remakes all items. The answer is exact, or an Error.
//
// Steps are those of the state's layout, from the beginning of the run. A rescaled job counts as if
// it always had that layout: with logical shards set by the user, its batches are the same,
// whatever ranks they went to. Steps are those of the loader: an adapter on top may have delivered
// its batches elsewhere.

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
#include "energon/sample/sample.h"
#include "energon/sample/sample_ref.h"
#include "energon/stage/dataset.h"
#include "energon/state/savable.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

/// A sample by its key and its place in a pipeline.
struct KeyedSample {
  std::string key;
  SampleRef reference;  ///< its repetition is 0
};

/// The places of found samples in the leaves of `data`, without duplicates, ordered by leaf and
/// index. Samples of other data have no place. Throws Error as LeafDataset::open_reader().
std::vector<KeyedSample> locate_samples(std::span<const FoundSample> found,
                                        const PipelineData& data);

/// A sample in an item (a batch, or a sample where nothing is batched) that a rank delivered.
struct Delivery {
  std::string key;
  std::int64_t step = 0;  ///< number of items that this rank delivered before it, over all epochs
  int rank = 0;
  std::int64_t position = 0;  ///< position of the sample in the item
  RestoreKey restore_key;     ///< key of the item
};

/// The samples of a step of a rank.
struct DeliveredStep {
  int rank = 0;
  std::int64_t step = 0;  ///< from 0: step 321 is the 322nd batch of the rank
  bool is_delivered =
      true;  ///< false if the rank had not delivered the step when its state was saved
  std::vector<std::string> keys;
  RestoreKey restore_key;
};

/// Makes the pipeline of a state with this configuration, such as order_pipeline(). Throws Error
/// (kUnsupported) if the pipeline does not exist.
using PipelineOfConfig = std::function<PipelineFactory(const Config& config)>;
/// Pipelines that may make the items of a job, the fastest first. They are tried in turn: the first
/// one whose items are those that the job delivered is used.
using JobPipelines = std::vector<PipelineOfConfig>;
/// Called before each item. An exception ends the computation.
using CancelCheck = std::function<void()>;

/// When the ranks delivered one of `samples` before their states: by rank, then in order. `ranks`
/// are all or some ranks of a job (SavableJobState::ranks). Throws the Error of the last pipeline:
/// kUnsupported if there is none for this state; kMismatch if its items are not those that the job
/// delivered; and as DeliveredItems.
std::vector<Delivery> find_deliveries(std::span<const SavableDataLoaderState> ranks,
                                      const JobPipelines& pipelines,
                                      std::span<const KeyedSample> samples,
                                      const CancelCheck& check_cancelled = nullptr);

/// The samples of `step` of each rank. Reads them for their keys. A step after the state is the
/// step that the rank delivers next; then the last pipeline is used unverified if no other has made
/// the earlier items. Throws Error: kInvalidArgument if the data of a rank ends before that step,
/// and as find_deliveries() and read_samples().
std::vector<DeliveredStep> keys_of_step(std::span<const SavableDataLoaderState> ranks,
                                        const JobPipelines& pipelines, const PipelineData& data,
                                        std::int64_t step,
                                        const CancelCheck& check_cancelled = nullptr);

/// The samples, as stored in the data, that `references` (such as samples_in() of a restore key)
/// name in the leaves of `data`, in that order. Throws Error: kInvalidArgument for a reference to
/// no sample, and as LeafReader::read().
std::vector<Sample> read_samples(std::span<const SampleRef> references, const PipelineData& data);

}  // namespace energon
