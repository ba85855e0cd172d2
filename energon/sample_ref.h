// What flows through shuffling, repeating and concatenating: which sample, not its bytes.

#pragma once

#include <cstdint>
#include <type_traits>

namespace energon {

/// Names one sample of the pipeline's leaf datasets. Sixteen bytes: a buffer of a million
/// references is 16 MB, saving it reads nothing, and skipping forward reads nothing.
struct SampleRef {
  /// Sample in the concatenation of the leaf's tars, in the order of its split.
  std::int64_t index = 0;
  /// Position of the leaf in the pipeline; 0 where there is only one.
  std::uint32_t leaf = 0;
  /// How often the leaf had been passed through before, modulo 2^32.
  std::uint32_t repetition = 0;

  bool operator==(const SampleRef&) const = default;
};

static_assert(sizeof(SampleRef) == 16 && std::is_trivially_copyable_v<SampleRef>);

}  // namespace energon
