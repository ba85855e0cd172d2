// What flows through shuffling, repeating and concatenating: which sample, not its bytes.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace energon {

/// Names one sample of the pipeline's leaf datasets. Sixteen bytes: a buffer of a million
/// references takes 35 MB with its blocks; saving it and skipping forward read nothing.
struct SampleRef {
  /// Sample in the concatenation of the leaf's tars, in the order of its split.
  std::int64_t index = 0;
  /// Position of the leaf in the pipeline; 0 where there is only one.
  std::uint32_t leaf = 0;
  /// How often the leaf had been passed through before, modulo 2^32.
  std::uint32_t repetition = 0;

  bool operator==(const SampleRef&) const = default;
};

/// The saved form of a list of references: each number in as many bytes as the largest of its kind
/// needs, so that a buffer of a million is 4 to 6 MB (docs/formats/checkpoint.md). Not thread-safe.
class SampleRefPacker {
 public:
  /// Looks at references that will be added, to know the widths.
  void measure(std::span<const SampleRef> refs);
  /// Requires: all of `refs` were measured, and nothing is measured after the first add().
  void add(std::span<const SampleRef> refs);
  std::string take();

 private:
  void begin();

  SampleRef largest_;
  std::size_t count_ = 0;
  std::string bytes_;
};

/// Throws Error (kCorruptData) unless `bytes` come from a SampleRefPacker and are at most `most`
/// references: those to sample 0 of leaf 0 take no bytes, so their number is not bounded by them.
std::vector<SampleRef> unpack_sample_refs(std::string_view bytes, std::size_t most);

static_assert(sizeof(SampleRef) == 16 && std::is_trivially_copyable_v<SampleRef>);

}  // namespace energon
