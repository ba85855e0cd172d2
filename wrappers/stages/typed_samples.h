// Makes the typed samples that a dataset.yaml describes, from the parts of what was read.
//
// A field is made of the first alternative of its expression whose part is there and whose path
// leads to a value. Parts are decoded once, and only those that are looked at. In Energon:
// field_map of dataset.yaml.

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
  /// Tensors lie in `memory`. Optional fields without a value are left out. A value that is null in
  /// the data is Null. Crude samples get their parts decoded. Throws Error with key and field:
  /// kNotFound for a required field, with what each alternative lacks; those of SampleDecoder.
  void make(Sample& sample, BufferAllocator& memory) const;

 private:
  TypedSamples samples_;
  SampleDecoder decoder_;
};

/// The parts of each dataset of a join apart: a JoinFunction for leaves with typed_columns.
Mapping parts_by_column(std::vector<JoinedColumn> columns);

/// A function that makes the samples of each leaf what PipelineLeaf::typed says (decodes their
/// parts, if it says nothing), and gives the result to `next`, if there is one. Throws Error
/// (kInvalidArgument) for an unknown image mode and wrong field maps, with the leaf.
MapFunction typed_samples(const SampleDecoderOptions& options,
                          const std::vector<PipelineLeaf>& leaves, MapFunction next = nullptr);

}  // namespace energon
