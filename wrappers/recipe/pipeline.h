// The standard pipelines: how the stages are put together for training and for validation.
//
//   train: per leaf SliceOrder -> [Repeat]; [Blend | ShareBlend] -> [Repeat] -> [ShuffleBuffer] ->
//          ReadSamples -> [cook] -> [encode | preencode] -> [Packing] -> [GroupBatch | Batch] ->
//          [encode batch] -> [Epochize] -> [LogSample] -> [Watchdog]
//   val:   per leaf SliceOrder (in order); [Concat] -> ReadSamples -> the same -> [Limit] ->
//          [LogSample] -> [Watchdog]
//
// Composition lives here and nowhere else. The order of stages is Energon's, but for cooking, which
// it does before blending: here only references are blended and shuffled (docs/pipelines.md).

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/order/slice_order.h"
#include "energon/stage/failure.h"
#include "energon/stage/pipeline.h"
#include "wrappers/batching/batch.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/task_encoder.h"
#include "wrappers/watch/watchdog.h"

namespace energon {

/// How a blend by weight chooses the next sample.
enum class BlendBy : std::uint8_t {
  kDraw,   ///< at random, as Energon
  kShare,  ///< the leaf whose share so far is furthest below its weight
           ///< (wrappers/orders/share_blend.h)
};

struct TrainOptions {
  TaskEncoder task_encoder = {};
  /// Samples (or packs) a batch, in groups of those that have no own; absent: single samples are
  /// delivered.
  std::optional<std::int64_t> batch_size = std::nullopt;
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  /// Samples to choose packs from; absent: no packing.
  std::optional<std::int64_t> packing_buffer_size = std::nullopt;

  /// References in the shuffle buffer; 0 and 1: none.
  std::int64_t shuffle_buffer_size = 0;
  /// Longest run of neighbours of one tar; absent: a tar's part of the share.
  std::optional<std::int64_t> max_samples_per_sequence = std::nullopt;
  /// Times the multiplier of each leaf.
  ShuffleOverEpochs shuffle_over_epochs = {};
  /// Slices that are open at a time, of each leaf that is shuffled.
  std::int64_t parallel_slices = 16;

  BlendBy blend_by = BlendBy::kDraw;

  /// Batches of one epoch of a rank; 0: an epoch is a passage over the data, or endless with
  /// `repeat`. Without `repeat` an epoch also ends with the data, so that the last one of a passage
  /// may be shorter; the next one begins the data again.
  std::int64_t virtual_epoch_length = 0;
  /// Begin the data again at its end, within the epoch. A weighted blend never ends and needs it.
  bool repeat = true;

  /// What becomes of what fails, by stage (stage_names in wrappers/recipe/task_encoder.h).
  ErrorPolicies errors = {};
  /// Reports a batch that takes too long while it is made; absent: nothing does.
  std::optional<WatchdogOptions> watchdog = std::nullopt;
  /// Where to log each batch that a worker makes, with its restore key
  /// (wrappers/watch/log_sample.h). Empty: nowhere.
  std::string log_path = {};
};

struct ValOptions {
  TaskEncoder task_encoder = {};
  std::optional<std::int64_t> batch_size = std::nullopt;
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  std::optional<std::int64_t> packing_buffer_size = std::nullopt;
  /// Batches of one epoch of a rank; absent or 0: all.
  std::optional<std::int64_t> limit = std::nullopt;
  ErrorPolicies errors = {};
  std::optional<WatchdogOptions> watchdog = std::nullopt;
  std::string log_path = {};
};

/// Pipelines for training. Throws Error (kInvalidArgument) for functions that exclude each other
/// and datasets no cooker is for; the factory throws it for options out of range.
PipelineFactory train_pipeline(PipelineData data, TrainOptions options = {});

/// Pipelines over the leaves one after the other, in order, for validation.
PipelineFactory val_pipeline(PipelineData data, ValOptions options = {});

/// The same over all that `path` means (wrappers/recipe/open_data.h): a dataset, plain tars, a
/// JSONL file or a metadataset. Throw Error as open_data() too.
PipelineFactory train_dataset(const std::string& path, const DataOptions& data = {},
                              TrainOptions options = {});
PipelineFactory val_dataset(const std::string& path, const DataOptions& data = {.split = "val"},
                            ValOptions options = {});

}  // namespace energon
