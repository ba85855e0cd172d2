// The standard pipelines for training and validation, built from the stages.
//
//   train: per leaf SliceOrder -> [Repeat]; [Blend | ShareBlend] -> [Repeat] -> [ShuffleBuffer] ->
//          ReadSamples -> [cook] -> [tokenize] -> [encode | preencode] -> [SortPool] ->
//          [Packing] -> [GroupBatch | Batch] -> [encode batch] -> [Epochize] -> [LogSample] ->
//          [Watchdog]
//   val:   per leaf SliceOrder (in order); [Concat] -> ReadSamples -> the same -> [Limit] ->
//          [LogSample] -> [Watchdog]
//   around either: any number of Limit and RepeatEpochs
//
// Stages are composed only here. Their order is Energon's, except that Energon cooks before it
// blends: here only references are blended and shuffled (docs/pipelines.md).

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/order/slice_order.h"
#include "energon/stage/dataset.h"
#include "energon/stage/failure.h"
#include "wrappers/batching/batch.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/task_encoder.h"
#include "wrappers/watch/watchdog.h"

namespace energon {

/// How a blend by weight chooses the next sample.
enum class BlendBy : std::uint8_t {
  kDraw,   ///< at random, like Energon
  kShare,  ///< the leaf whose share so far is furthest below its weight
           ///< (wrappers/orders/blend.h)
};

struct TrainOptions {
  TaskEncoder task_encoder = {};
  /// Samples (or packs) per batch; with groups, for groups without their own batch size. Absent:
  /// single samples are delivered.
  std::optional<std::int64_t> batch_size = std::nullopt;
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  /// Number of samples in a call of encode_samples. The results do not depend on it.
  std::int64_t samples_per_call = 64;
  /// Number of samples that are sorted by cost together. Unset means no sorting.
  std::optional<std::int64_t> sort_pool_size = std::nullopt;
  /// Number of samples from which packs are selected. Unset means no packing.
  std::optional<std::int64_t> packing_buffer_size = std::nullopt;

  /// Number of references in the shuffle buffer. 0 and 1 mean no shuffle buffer.
  std::int64_t shuffle_buffer_size = 0;
  /// Longest run of consecutive samples from one tar. Unset means the part of a tar that is in the
  /// share.
  std::optional<std::int64_t> max_samples_per_sequence = std::nullopt;
  /// Multiplied by the multiplier of each leaf.
  ShuffleOverEpochs shuffle_over_epochs = {};
  /// Number of slices open at a time in each leaf that is shuffled.
  std::int64_t parallel_slices = 16;

  BlendBy blend_by = BlendBy::kDraw;

  /// Number of batches in one epoch of a rank. 0 means that an epoch is one pass over the data, or
  /// endless with `repeat`. Without `repeat` an epoch also ends where the data ends, so the last
  /// epoch of a pass may be shorter; the next epoch starts the data again.
  std::int64_t virtual_epoch_length = 0;
  /// Start the data again at its end, within the epoch. A weighted blend never ends and needs this.
  bool repeat = true;

  /// What to do with failures, by stage (stage_names in wrappers/recipe/task_encoder.h).
  ErrorPolicies errors = {};
  /// Reports a batch that takes too long to make. Unset means no watchdog.
  std::optional<WatchdogOptions> watchdog = std::nullopt;
  /// File in which to log each batch that a worker makes, with its restore key
  /// (wrappers/watch/log_sample.h). Empty: no log.
  std::string log_path = {};
};

struct ValOptions {
  TaskEncoder task_encoder = {};
  std::optional<std::int64_t> batch_size = std::nullopt;
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  std::int64_t samples_per_call = 64;
  std::optional<std::int64_t> sort_pool_size = std::nullopt;
  std::optional<std::int64_t> packing_buffer_size = std::nullopt;
  /// Number of batches in one epoch of a rank; absent or 0: all.
  std::optional<std::int64_t> limit = std::nullopt;
  ErrorPolicies errors = {};
  std::optional<WatchdogOptions> watchdog = std::nullopt;
  std::string log_path = {};
};

/// Pipelines for training. Throws Error (kInvalidArgument) for functions that exclude each other
/// and for datasets without a matching cooker; the factory throws it for options out of range.
PipelineFactory train_pipeline(PipelineData data, TrainOptions options = {});

/// Pipelines for validation: reads the leaves one after the other, in order.
PipelineFactory val_pipeline(PipelineData data, ValOptions options = {});

/// `pipeline` with epochs of at most `length` batches of the rank, each of which starts it over, as
/// Energon's LimitDataset does. The factory throws Error (kInvalidArgument) for a negative length.
PipelineFactory limited_pipeline(PipelineFactory pipeline, std::int64_t length);

/// `pipeline` repeated within one epoch: `repetitions` times, or forever, as Energon's
/// RepeatDataset does (RepeatEpochs in wrappers/stages/epochs.h). A fraction is that of the
/// pipeline's nominal_length(). With `restarts` = false, all epochs after the first are empty. The
/// factory throws Error (kInvalidArgument) for a number out of range.
PipelineFactory repeated_pipeline(PipelineFactory pipeline, std::optional<double> repetitions,
                                  bool restarts = true);

/// The same over the data at `path` (wrappers/recipe/open_data.h): a dataset, plain tars, a JSONL
/// file or a metadataset. Also throw Error like open_data().
PipelineFactory train_dataset(const std::string& path, const DataOptions& data = {},
                              TrainOptions options = {});
PipelineFactory val_dataset(const std::string& path, const DataOptions& data = {.split = "val"},
                            ValOptions options = {});

}  // namespace energon
