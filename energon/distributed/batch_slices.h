// Batches cut and joined by samples: how one batch becomes the batches of several ranks.
//
// A field is per sample if it is a list with one element for each sample, or a tensor whose first
// dimension is the number of samples. Mappings are treated field by field. Any other field belongs
// to the whole batch: every slice keeps it, and it must be equal in all batches that are joined.

#pragma once

#include <cstdint>
#include <span>

#include "energon/sample/sample.h"

namespace energon {

/// Number of samples in a batch, which is the number of its keys.
std::int64_t sample_count(const Sample& batch);

/// Samples [begin, end) of `batch`. Payloads are not copied. Only a slice of the whole batch keeps
/// the restore key and the place; other slices have none.
Sample slice_batch(const Sample& batch, std::int64_t begin, std::int64_t end);

/// The batches one after the other; tensors are copied unless there is only one batch. Throws Error
/// (kInvalidArgument), naming the field, if the batches differ in fields, kinds, dtypes or
/// dimensions.
Sample concatenate_batches(std::span<const Sample> batches);

/// Throws as concatenate_batches() would; copies nothing.
void check_concatenation(std::span<const Sample> batches);

/// Samples [begin, end) of the batches one after the other. Copies only if the range spans several
/// batches. Requires: the range lies within the batches.
Sample slice_batches(std::span<const Sample> batches, std::int64_t begin, std::int64_t end);

}  // namespace energon
