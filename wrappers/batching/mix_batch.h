// A batch function for blends: the samples of each leaf dataset are batched on their own, then the
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
  std::size_t count;  ///< samples
};

/// `batches` ascend by leaf; it may take them apart.
using MixFunction = std::function<Mapping(std::span<LeafBatch> batches)>;

/// All must have the same fields: tensors are joined along dimension 0 (their other dimensions must
/// be equal), lists one after the other, mappings field by field. Throws Error (kInvalidArgument).
Mapping concat_batches(std::span<LeafBatch> batches);

struct MixOptions {
  /// For leaves that have no own.
  BatchFunction function = list_fields;
  std::map<std::int64_t, BatchFunction> leaf_functions = {};
  MixFunction mix = concat_batches;
};

/// The function to give to Batch. The samples are sorted by leaf (leaf_of()), those of one leaf
/// keep their order; keys and sources of the batch have the same order as what concat_batches()
/// joins.
/// Throws Error (kInvalidArgument) if a function is missing.
BatchFunction mix_batch(MixOptions options = {});

}  // namespace energon
