// Makes the typed samples that a dataset.yaml describes from the parts of samples.
//
// A field comes from the first alternative of its expression whose part exists and whose path leads
// to a value. Parts are decoded once, and only if needed. In Energon: field_map of dataset.yaml.

#pragma once

#include <vector>

#include "energon/read/joined_dataset.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/recipe/typed_samples.h"
#include "media/decode/sample_decoder.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/stages/map.h"

namespace energon {

/// Immutable; thread-safe.
class TypedSampleMaker {
 public:
  /// Throws Error as validate(samples).
  TypedSampleMaker(TypedSamples samples, const SampleDecoder& decoder);

  /// Replaces the parts of `sample` by the fields of the type, in their order; the rest stays.
  /// Tensors are stored in `memory`. Optional fields without a value are omitted. A null in the
  /// data becomes Null. For crude samples, only decodes the parts. Throws Error with key and field:
  /// kNotFound for a missing required field, with the reason for each alternative; and like
  /// SampleDecoder, which draws from `rng`.
  void make(Sample& sample, BufferAllocator& memory, CallRng* rng = nullptr) const;

 private:
  TypedSamples samples_;
  SampleDecoder decoder_;
};

/// Keeps the parts of each dataset of a join separate: a JoinFunction for leaves with
/// typed_columns.
Mapping parts_by_column(std::vector<JoinedColumn> columns);

/// A function that converts the samples of each leaf to PipelineLeaf::typed (if unset, only decodes
/// their parts; not called for leaves with PipelineLeaf::load), and passes the result to `next`, if
/// there is one. Throws Error (kInvalidArgument) for an unknown image mode and wrong field maps,
/// with the leaf.
MapFunction typed_samples(const SampleDecoderOptions& options,
                          const std::vector<PipelineLeaf>& leaves, MapFunction next = nullptr);

}  // namespace energon
