// Samples that were consumed: empty ones, whose memory the next samples use.
//
// A stage that takes the content out of samples, as batching does, gives what is left of them here;
// a reader takes its samples from here. So once a pipeline runs, the lists of a sample cost no
// allocation.

#pragma once

#include <vector>

#include "energon/sample/sample.h"

namespace energon {

/// An empty sample. Each thread has spare samples of its own.
Sample take_spare_sample();

/// Empties `samples`, whose content is dropped, and keeps their memory. At most kMostSpareSamples
/// are kept, and none with many fields.
void keep_spare_samples(std::vector<Sample>& samples);

inline constexpr std::size_t kMostSpareSamples = 4096;

}  // namespace energon
