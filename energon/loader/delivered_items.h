// DeliveredItems: the samples in each step of a saved job. Computed from a state and a pipeline,
// without a log.
//
//   const PipelineFactory order = order_pipeline(data, options, rank.config);
//   DeliveredItems items(rank, order);
//   while (auto item = items.next()) { … item->step, item->samples … }
//
// With an order pipeline (wrappers/recipe/order_pipeline.h), no data is read and no user function
// runs. With the job's own pipeline, its functions and error policies recompute all items.
//
// A sample that a job left out, because of an error policy, SkipSample or exclude_files, shifts all
// later samples of its logical shard. A state records what was delivered: the position of each
// logical shard in the order, and the number and digest of its samples
// (energon/checkpoint/certificate.h). Once all items before the state are recomputed, next()
// compares them with the state and throws if they differ from those that the job delivered. Items
// are proven only then: read up to delivered() before you rely on any of them. A job that was
// continued from a state of megatron-energon, which has no certificates, is proven only if its data
// repeats forever and its functions make one item from each sample.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/order/worker_config.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "energon/sample/sample_ref.h"
#include "energon/stage/dataset.h"

namespace energon {

/// A batch (or a sample, without batching) that a rank delivered.
struct DeliveredItem {
  std::int64_t step = 0;  ///< number of items that this rank delivered before it, over all epochs
  RestoreKey restore_key = {};
  std::vector<SampleRef> samples = {};  ///< samples_in(restore_key)
};

/// Number of items that the rank's logical shards had delivered when its state was saved.
std::int64_t delivered_items(const SavableDataLoaderState& rank);

/// The items of one rank. A rescaled rank counts as if it had always had its present layout. If the
/// user set the number of logical shards, the items do not depend on which ranks received them. Not
/// thread-safe.
class DeliveredItems {
 public:
  /// Where to start: at the first item of the job, or the first one after the state.
  enum class From : std::uint8_t { kFirst, kState };

  /// Throws Error (kMismatch), with all differences, unless `pipeline` has the configuration that
  /// `rank` was saved with.
  DeliveredItems(const SavableDataLoaderState& rank, PipelineFactory pipeline,
                 From from = From::kFirst);
  DeliveredItems(const DeliveredItems&) = delete;
  DeliveredItems& operator=(const DeliveredItems&) = delete;

  /// The next item, continuing through all epochs; nullopt if an epoch has no items. Items from
  /// delivered() on are the next ones of the job, provided that it leaves out the same samples as
  /// `pipeline`. Throws Error (kMismatch) once the items before the state differ from those that
  /// the job delivered, or cannot be proven equal; and whatever the pipeline throws.
  std::optional<DeliveredItem> next();

  int rank() const { return layout_.rank; }
  /// delivered_items() of the state.
  std::int64_t delivered() const { return delivered_; }

 private:
  // A logical shard: what the job delivered, and what was recomputed.
  struct LogicalShard {
    SavableDatasetCheckpoint saved = {};
    std::unique_ptr<PositionedDataset> dataset = nullptr;
    Certificate produced = {};  // without keys, only the number of samples
    bool has_keys = true;       // whether all samples have keys
    bool is_uniform = true;     // all items have `item_size` samples
    std::size_t item_size = 0;

    std::int64_t delivered() const { return saved.index + saved.offset; }
  };

  // The recomputed place in the order, compared with the saved one. kSameEnd: equal after looking
  // for the end of the epoch.
  enum class Position : std::uint8_t { kSame, kSameEnd, kDifferent };

  PipelineContext context(std::size_t local_index);
  void add_logical_shard(const SavableDataLoaderState& rank, From from);
  void count(LogicalShard& logical_shard, const Sample& item, std::size_t samples) const;
  void check_produced(std::size_t number);
  void check_position(std::size_t number);
  Position compare_positions(std::size_t number);
  std::unique_ptr<PositionedDataset> restored(std::size_t number,
                                              const SavableDatasetCheckpoint& checkpoint);
  [[noreturn]] void refuse(std::size_t number, std::string_view difference) const;

  const WorkerConfig layout_;
  const std::int64_t delivered_;
  const PipelineFactory make_pipeline_;
  const bool is_endless_;      // the order never ends
  const bool repeats_epochs_;  // an epoch may hold the ends of inner ones
  const bool hides_left_out_;  // epochs may end with the same number of samples although some were
                               // left out
  HeapBufferPool memory_;
  const std::shared_ptr<BatchMemory> batch_memory_ = std::make_shared<BatchMemory>(memory_);
  const std::shared_ptr<LeafReaders> readers_ = make_leaf_readers();
  std::vector<LogicalShard> logical_shards_;
  std::size_t unproven_ = 0;  // logical shards not yet recomputed up to the state
  Turns turns_;
  std::int64_t step_ = 0;
};

}  // namespace energon
