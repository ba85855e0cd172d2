// Makes any number of batches from each group of samples.
//
// Batch makes one batch from each group. A generator makes several, one after the other and each
// only when requested, like an Energon batch function that yields. A state saved in the middle of a
// group has the keys of the group's samples and the number of batches made so far.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "energon/stage/call_context.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/batching/batch.h"
#include "wrappers/batching/batch_functions.h"

namespace energon {

/// Returns the fields of the next batch, or nothing after the last one. An empty function makes no
/// batches.
using FieldsGenerator = std::function<std::optional<Mapping>()>;

/// Runs in the worker. `samples` and `context` live as long as the generator. The random numbers
/// belong to the call, not to each batch. Each batch has the keys and sources of all samples.
using BatchGenerator =
    std::function<FieldsGenerator(std::span<Sample> samples, CallContext& context)>;

/// A batch function: one that makes a single batch, or one that makes any number.
using BatchStage = std::variant<BatchFunction, BatchGenerator>;

struct GeneratedBatchOptions {
  std::int64_t batch_size = 1;  ///< samples in a group; from 1 to kMaxBatchSize
  /// What happens to the samples at the end of an epoch that do not fill a group.
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  BatchGenerator function = nullptr;
  StageOptions stage = {.name = "batch"};
};

/// Takes ownership of `inner`. The stage is an IterMap: a batch has the key IterMap(group,
/// batch)[samples]. If the generator throws, the samples of its group are left out. Throws Error
/// (kInvalidArgument).
std::unique_ptr<Dataset> generated_batches(std::unique_ptr<Dataset> inner,
                                           GeneratedBatchOptions options);

}  // namespace energon
