// Batches of tensors of unequal length without padding: all rows in one tensor, and the offsets of
// each sample's rows.
//
// This is the layout of Arrow's lists and of torch's jagged nested tensors. A ragged field is a
// mapping {"values": tensor of shape (rows, *rest), "offsets": int64 of shape (samples + 1)}; the
// rows of sample i are [offsets[i], offsets[i + 1]).

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "energon/sample/sample.h"
#include "wrappers/batching/batch_functions.h"

namespace energon {

struct RaggedOptions {
  /// Names of the fields; "a.b" is field b of the mapping a. Empty means all fields with tensors,
  /// except scalars, or lists of tensors.
  std::vector<std::string> fields = {};
};

/// Makes ragged fields of tensors of equal dtype whose dimensions after the first are equal; other
/// fields are as in generic_batch(). A list of tensors of equal shape S counts as one tensor of
/// shape (items, *S), so that the images of interleaved samples are (images, 3, height, width). If
/// all lists of a field in `fields` are empty, its values are uint8 of shape (0).
///
/// Values are stored in the batch's memory, copied once, or not at all if they are already
/// contiguous. The function throws Error (kInvalidArgument), naming field and samples, for tensors
/// that do not fit, and for a field of `fields` that is missing or contains neither tensors nor
/// lists of tensors.
BatchFunction ragged_fields(RaggedOptions options = {});

/// A ragged field, with access by sample. A value; shares the memory of the field.
struct Ragged {
  Tensor values;
  Tensor offsets;

  /// Throws Error (kInvalidArgument) with the reason if `field` is not a ragged field, for instance
  /// if its offsets do not ascend from 0 to the number of rows.
  static Ragged from(const Value& field);

  /// Number of samples.
  std::int64_t size() const;
  /// Number of rows of sample `i`, and the position of the first. Throw Error (kInvalidArgument)
  /// unless 0 <= i < size().
  std::int64_t length(std::int64_t i) const;
  std::int64_t begin(std::int64_t i) const;
  /// The tensor of sample `i`: shape (length(i), *rest), the memory of `values`. Throws as
  /// length(). Its data is only aligned for the dtype.
  Tensor row(std::int64_t i) const;
};

}  // namespace energon
