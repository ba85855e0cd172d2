// The standard pipelines: how the stages are put together for training and for validation.
//
//   train:  SliceOrder -> [Repeat] -> [ShuffleBuffer] -> ReadSamples -> Map… -> [Batch] -> Map… ->
//   [Epochize] val:    SliceOrder (in order), one after the other -> ReadSamples -> Map… -> [Batch]
//   -> Map… -> [Limit]
//
// Composition lives here and nowhere else. The order of stages is Energon's.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/pipeline.h"
#include "energon/webdataset/slice_order.h"
#include "energon/webdataset/webdataset.h"
#include "wrappers/batch.h"
#include "wrappers/map.h"

namespace energon {

struct NamedMap {
  std::string name;
  MapFunction function;
};

struct TrainOptions {
  /// Samples a batch; absent: single samples are delivered.
  std::optional<std::int64_t> batch_size = std::nullopt;
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  BatchFunction batch_function = list_fields;

  /// References in the shuffle buffer; 0 and 1: none.
  std::int64_t shuffle_buffer_size = 0;
  /// Longest run of neighbours of one tar; absent: a tar's part of the share.
  std::optional<std::int64_t> max_samples_per_sequence = std::nullopt;
  ShuffleOverEpochs shuffle_over_epochs = {};
  /// Slices that are open at a time.
  std::int64_t parallel_slices = 16;

  /// Batches of one epoch of a rank; 0: an epoch is a passage over the data, or endless with
  /// `repeat`.
  std::int64_t virtual_epoch_length = 0;
  /// Begin the data again at its end, within the epoch.
  bool repeat = true;

  std::vector<NamedMap> sample_maps = {};  ///< applied to each sample, after it was read
  std::vector<NamedMap> batch_maps = {};   ///< applied to each batch
  /// What becomes of what fails; stages: "read", "batch" and the names of the maps.
  ErrorPolicies errors = {};
};

struct ValOptions {
  std::optional<std::int64_t> batch_size = std::nullopt;
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  BatchFunction batch_function = list_fields;
  /// Batches of one epoch of a rank; absent: all.
  std::optional<std::int64_t> limit = std::nullopt;

  std::vector<NamedMap> sample_maps = {};
  std::vector<NamedMap> batch_maps = {};
  ErrorPolicies errors = {};
};

/// Pipelines over one dataset, for training. The factory throws Error (kInvalidArgument) for
/// options out of range.
PipelineFactory train_pipeline(std::shared_ptr<const Webdataset> dataset,
                               TrainOptions options = {});

/// Pipelines over datasets one after the other, in order, for validation.
PipelineFactory val_pipeline(std::vector<std::shared_ptr<const Webdataset>> datasets,
                             ValOptions options = {});

}  // namespace energon
