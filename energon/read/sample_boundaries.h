// Checks that the samples of a shard begin and end where its index says, for an index whose digest
// was not recorded by prepare().
//
// `<shard>.tar.idx` has no checksum. An entry that points to the wrong member, for example because
// of a flipped bit, moves a part of one sample to its neighbour. The neighbour's range then has two
// keys, which the reader rejects, but the sample that lacks a part looks valid. So before a sample
// is delivered, the keys in the ranges on both sides are compared with its own key. Neighbours that
// were read before or together with the sample cost nothing; otherwise their headers are read.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/index/tar_index.h"

namespace energon {

/// The keys of one shard. Takes kBytesPerSample. Not thread-safe.
class SampleBoundaries {
 public:
  static constexpr std::uint64_t kBytesPerSample = 16;

  explicit SampleBoundaries(std::int64_t sample_count)
      : edges_(static_cast<std::size_t>(sample_count)) {}

  /// Records that all parts in the range of `sample` have this key. Requires: its whole range was
  /// walked.
  void note(std::int64_t sample, std::string_view key);

  /// Requires: note(sample, …). Throws Error (kCorruptData) if an adjacent range has a part with
  /// the sample's key. If the headers of a neighbour are damaged, only the readable ones are
  /// compared. Throws Error (kIo) if a neighbour cannot be read.
  void check(const FileSource& tar, const TarIndex& index, std::int64_t sample);

 private:
  /// XXH3-64 of the keys of the first and last part in a range; 0: not known.
  struct Edges {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };

  static_assert(sizeof(Edges) == kBytesPerSample);

  std::vector<Edges> edges_;
};

}  // namespace energon
