// Reads samples, as stored in the data, by their references (samples_in() of a restore key).

#pragma once

#include <span>
#include <vector>

#include "energon/sample/sample.h"
#include "energon/sample/sample_ref.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

/// The samples that `references` name in the leaves of `data`, in that order. Throws Error:
/// kInvalidArgument for a reference to no sample, and as LeafReader::read().
std::vector<Sample> read_samples(std::span<const SampleRef> references, const PipelineData& data);

}  // namespace energon
