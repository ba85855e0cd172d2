// Any number of batches of each group of samples.
//
// Where a Batch makes one batch of so many samples, a generator gives one after the other, as a
// batch function of Energon that yields. It is asked for each when it is wanted. A state in the
// middle has the keys of the group's samples and how many batches were given.

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

/// Gives the fields of the next batch, or nothing after the last one. An empty function gives none.
using FieldsGenerator = std::function<std::optional<Mapping>()>;

/// Runs in the worker. `samples` and `context` live as long as the generator; the random numbers
/// are those of the call, not of each batch. Each batch has the keys and sources of all samples.
using BatchGenerator =
    std::function<FieldsGenerator(std::span<Sample> samples, CallContext& context)>;

/// A function of the samples of a batch: one that makes one batch, or one that makes any number.
using BatchStage = std::variant<BatchFunction, BatchGenerator>;

struct GeneratedBatchOptions {
  std::int64_t batch_size = 1;  ///< samples in a group; from 1 to kMaxBatchSize
  /// What becomes of the samples that are left at the end of an epoch and do not fill a group.
  BatchOptions::Remainder remainder = BatchOptions::Remainder::kSmallerBatch;
  BatchGenerator function = nullptr;
  StageOptions stage = {.name = "batch"};
};

/// Takes `inner`. The stage is an IterMap: a batch has the key IterMap(group, batch)[samples], and
/// what the generator throws leaves out the samples of its group. Throws Error (kInvalidArgument).
std::unique_ptr<Dataset> generated_batches(std::unique_ptr<Dataset> inner,
                                           GeneratedBatchOptions options);

}  // namespace energon
