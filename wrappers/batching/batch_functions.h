// Functions for Batch and GroupBatch that make one batch from several samples.
//
// They differ in how they treat tensors. list_fields combines none; stack_fields requires equal
// shapes; pad_stack_fields pads to the largest shape; concat_fields joins along the first
// dimension, concat_pad_fields with padding of the others; generic_batch decides by the kind of
// each field. ragged_fields (ragged_batch.h) joins without padding and stores offsets. Undecoded
// parts are bytes and can only be listed. Errors (kInvalidArgument) name the field, the sample and
// both shapes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"

namespace energon {

/// Makes the fields of a batch from its samples. It may move data out of the samples and reorder
/// them; the keys and sources of the batch follow the final order of `samples`. The stage sets the
/// restore key. `context` belongs to the batch: random numbers, and memory for tensors. A function
/// that needs no context may take only the samples.
using BatchFunction = ContextFunction<Mapping(std::span<Sample> samples)>;

/// One field per part name, in the order of first appearance: a list with that part of each sample.
/// Throws Error (kInvalidArgument), naming the sample, if a part is missing or duplicated. Payloads
/// are not copied.
Mapping list_fields(std::span<Sample> samples);

/// Like list_fields(), but with one tensor per field. Tensors of equal dtype and shape S become one
/// of shape (samples, *S), without a copy if they are contiguous. Integers become an int64 tensor,
/// floats a float64 tensor and booleans a bool tensor of shape (samples).
Mapping stack_fields(std::span<Sample> samples, CallContext& context);

struct PadOptions {
  double value = 0;  ///< fills the space after the data; the dtype must be able to represent it
  /// Adds a field "<field>_lengths" after each tensor field: the sizes before padding, as int64 of
  /// shape (samples) for tensors of one dimension, else (samples, dimensions). Scalars get none. An
  /// existing field with this name is an error.
  bool lengths = false;
};

/// Like stack_fields(), for tensors of equal dtype and number of dimensions. Pads each tensor at
/// the end of each dimension to the largest size in the batch.
BatchFunction pad_stack_fields(PadOptions options = {});

/// Joins tensors of equal dtype and number of dimensions (at least 1) along dimension 0, and pads
/// the other dimensions at their ends to the largest in the batch: Energon's concat_pad. Other
/// fields are treated as in generic_batch(); mappings are processed field by field.
BatchFunction concat_pad_fields(PadOptions options = {});

/// Like list_fields(), but joins the samples' tensors along dimension 0 (the other dimensions must
/// be equal) and concatenates their lists.
Mapping concat_fields(std::span<Sample> samples, CallContext& context);

/// Decides by the kind of the values: tensors are padded with 0 and stacked; integers, floats and
/// booleans become a tensor; mappings are batched field by field; everything else is listed.
Mapping generic_batch(std::span<Sample> samples, CallContext& context);

/// The same, but integers, floats and booleans are listed, too, like Energon's TaskEncoder.batch.
Mapping energon_batch(std::span<Sample> samples, CallContext& context);

/// Joins the values of one field as concat_fields() does, and mappings field by field. `owners` has
/// a name for each value, used in errors. The result is stored in `memory`.
Value concat_values(std::string_view field, List values, std::span<const std::string_view> owners,
                    BufferAllocator& memory);

// --- Mixing ---
//
// A batch function for blends: the samples of each leaf dataset are batched separately, then the
// batches are mixed into one.

struct LeafBatch {
  std::int64_t leaf;  ///< position of the dataset in the pipeline
  Mapping fields;
  std::size_t count;  ///< number of samples
};

/// Mixes `batches`, which are sorted by leaf, into one. It may move data out of them.
using MixFunction = std::function<Mapping(std::span<LeafBatch> batches, CallContext& context)>;

/// Joins batches with the same fields: tensors along dimension 0 (the other dimensions must be
/// equal), lists by concatenation, mappings field by field. Throws Error (kInvalidArgument) if they
/// do not fit.
Mapping concat_batches(std::span<LeafBatch> batches, CallContext& context);

struct MixOptions {
  /// For leaves without their own function.
  BatchFunction function = list_fields;
  std::map<std::int64_t, BatchFunction> leaf_functions = {};
  MixFunction mix = concat_batches;
};

/// Returns a function for Batch. Sorts the samples by leaf (leaf_of()); samples of one leaf keep
/// their order. The keys and sources of the batch have the same order as the data joined by
/// concat_batches(). Throws Error (kInvalidArgument) if a function is missing.
BatchFunction mix_batch(MixOptions options = {});

}  // namespace energon
