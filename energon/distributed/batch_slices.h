// Batches cut and joined by samples: how one batch becomes the batches of several ranks.
//
// A field belongs to the samples if it is a list with one element for each, or a tensor whose first
// dimension counts them; mappings are looked at field by field. Anything else belongs to the batch
// as a whole: it is kept by every slice, and must be equal in all batches that are joined.

#pragma once

#include <cstdint>
#include <span>

#include "energon/sample/sample.h"

namespace energon {

/// Samples in a batch: its keys.
std::int64_t sample_count(const Sample& batch);

/// Samples [begin, end) of `batch`. Payloads are not copied. The restore key is only kept by a
/// slice that is the whole batch; others have none.
Sample slice_batch(const Sample& batch, std::int64_t begin, std::int64_t end);

/// The batches one after the other; tensors are copied, unless there is but one batch. Throws Error
/// (kInvalidArgument) that names the field if they do not fit: other fields, kinds, dtypes or
/// dimensions.
Sample concatenate_batches(std::span<const Sample> batches);

/// Throws as concatenate_batches() would; copies nothing.
void check_concatenation(std::span<const Sample> batches);

/// Samples [begin, end) of the batches one after the other. Only what spans batches is copied.
/// Requires: a range within them.
Sample slice_batches(std::span<const Sample> batches, std::int64_t begin, std::int64_t end);

}  // namespace energon
