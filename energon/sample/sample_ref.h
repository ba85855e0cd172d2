// Identifies a sample without its bytes. Shuffling, repeating and concatenating work on such
// references.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace energon {

/// Identifies one sample of the pipeline's leaf datasets in sixteen bytes. A buffer of a million
/// references takes 35 MB including its blocks; saving it and skipping forward read no data.
struct SampleRef {
  /// Index of the sample in the concatenation of the leaf's tars, in the order of its split.
  std::int64_t index = 0;
  /// Index of the leaf in the pipeline; 0 if there is only one.
  std::uint32_t leaf = 0;
  /// Number of completed passes over the leaf before this one, modulo 2^32.
  std::uint32_t repetition = 0;

  bool operator==(const SampleRef&) const = default;
};

/// Encodes a list of references for saving. Each number is stored as its difference from the
/// minimum of its kind, in the fewest bits that fit all of them, so a buffer of a million
/// references takes 2 to 5 MB (docs/formats/checkpoint.md). Not thread-safe.
class SampleRefPacker {
 public:
  /// Inspects references that will be added, to determine the widths.
  void measure(std::span<const SampleRef> refs);
  /// Requires: all of `refs` were measured, and nothing is measured after the first add().
  void add(std::span<const SampleRef> refs);
  std::string take();

 private:
  void begin();
  void put(std::uint64_t value, unsigned width);

  SampleRef least_;
  SampleRef most_;
  std::size_t count_ = 0;
  std::string bytes_;
  std::uint64_t word_ = 0;  // bits not yet appended to bytes_
  unsigned filled_ = 0;     // number of bits in word_
};

/// Decodes the output of a SampleRefPacker. Throws Error (kCorruptData) for invalid bytes, or for
/// more than `most` references. The limit is needed because references to sample 0 of leaf 0 take
/// no bytes, so the size of `bytes` does not bound their number.
std::vector<SampleRef> unpack_sample_refs(std::string_view bytes, std::size_t most);

static_assert(sizeof(SampleRef) == 16 && std::is_trivially_copyable_v<SampleRef>);

}  // namespace energon
