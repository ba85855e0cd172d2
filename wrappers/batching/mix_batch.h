// A batch function for blends: the samples of each leaf dataset are batched separately, then the
// batches are mixed into one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "energon/sample/sample.h"
#include "wrappers/batching/batch_functions.h"

namespace energon {

struct LeafBatch {
  std::int64_t leaf;  ///< position of the dataset in the pipeline
  Mapping fields;
  std::size_t count;  ///< number of samples
};

/// Mixes `batches`, which are sorted by leaf, into one. It may move data out of them.
using MixFunction = std::function<Mapping(std::span<LeafBatch> batches, CallContext& context)>;

/// Joins batches with the same fields: tensors along dimension 0 (the other dimensions must be
/// equal), lists one after the other, mappings field by field. Throws Error (kInvalidArgument) if
/// they do not fit.
Mapping concat_batches(std::span<LeafBatch> batches, CallContext& context);

struct MixOptions {
  /// For leaves without a function of their own.
  BatchFunction function = list_fields;
  std::map<std::int64_t, BatchFunction> leaf_functions = {};
  MixFunction mix = concat_batches;
};

/// The function to give to Batch. Sorts the samples by leaf (leaf_of()); samples of one leaf keep
/// their order. The keys and sources of the batch have the same order as the data joined by
/// concat_batches(). Throws Error (kInvalidArgument) if a function is missing.
BatchFunction mix_batch(MixOptions options = {});

}  // namespace energon
