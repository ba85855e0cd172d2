// What makes one batch of several samples: functions for Batch and GroupBatch.
//
// They differ in what becomes of tensors. list_fields puts nothing together; stack_fields wants
// equal shapes; pad_stack_fields fills up to the largest; concat_fields joins along the first
// dimension; generic_batch decides by the kind of each field. Parts that were not decoded are bytes
// and can only be listed. All name field, sample and both shapes in errors (kInvalidArgument).

#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "energon/sample/sample.h"

namespace energon {

/// Makes the fields of a batch from its samples, which it may take apart and reorder; keys and
/// sources of the batch follow the order in which it leaves them. The stage sets the restore key.
using BatchFunction = std::function<Mapping(std::span<Sample> samples)>;

/// One field per part name, in the order of first appearance: a list with that part of each sample.
/// A sample without the part, or with two of the name, is an Error (kInvalidArgument) that names
/// it. Payloads are not copied.
Mapping list_fields(std::span<Sample> samples);

/// As list_fields(), with one tensor per field: tensors of equal dtype and shape S become one of
/// shape (samples, *S), integers an int64 and numbers a float64 tensor of shape (samples).
Mapping stack_fields(std::span<Sample> samples);

struct PadOptions {
  double value = 0;  ///< written behind the data; must be one of the dtype's values
};

/// As stack_fields(), for tensors of equal dtype and number of dimensions: each is padded at the
/// end of each dimension to the largest size in the batch.
BatchFunction pad_stack_fields(PadOptions options = {});

/// As list_fields(), with the samples' tensors joined along dimension 0 (the other dimensions must
/// be equal), and their lists one after the other.
Mapping concat_fields(std::span<Sample> samples);

/// By the kind of the values: tensors are padded with 0 and stacked, integers and numbers become a
/// tensor, mappings are batched field by field, everything else is listed. As TaskEncoder.batch of
/// Energon.
Mapping generic_batch(std::span<Sample> samples);

/// The values of one field joined as concat_fields() does, and mappings field by field. `owners`
/// has a name for each value, for errors.
Value concat_values(std::string_view field, List values, std::span<const std::string> owners);

}  // namespace energon
