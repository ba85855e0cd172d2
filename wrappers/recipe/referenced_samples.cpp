#include "wrappers/recipe/referenced_samples.h"

#include <fmt/format.h>

#include "energon/read/leaf_readers.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "io/error.h"

namespace energon {

std::vector<Sample> read_samples(std::span<const SampleRef> references, const PipelineData& data) {
  HeapBufferPool memory;
  LeafReaders readers;
  std::vector<Sample> samples;
  for (const SampleRef& reference : references) {
    if (reference.leaf >= data.leaves.size() ||
        reference.index >= data.leaves[reference.leaf].dataset->sample_count()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("there is no sample {} of dataset {} (of {}): was it other data?",
                              reference.index, reference.leaf, data.leaves.size()));
    }
    readers.of(data.leaves[reference.leaf].dataset)->read({&reference.index, 1}, memory, samples);
    samples.back().restore_key =
        RestoreKey::leaf(Stage::kWebdataset, {reference.leaf, reference.index});
  }
  return samples;
}

}  // namespace energon
