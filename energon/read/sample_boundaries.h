// Whether the samples of a shard begin and end where its index says, for an index that nothing
// vouches for.
//
// `<shard>.tar.idx` has no checksum. An entry that was moved to another member, by one flipped bit
// for instance, gives a part of one sample to its neighbour: two keys in one range, which the
// reader refuses, and a sample that lacks a part, which looks like any other. So before a sample is
// delivered the keys of the ranges on both sides are compared with its own. What was read together
// or before costs nothing; else the headers of the neighbours are read.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "io/file_source.h"
#include "io/index/tar_index.h"

namespace energon {

/// Of one open shard; holds 16 bytes a sample. Not thread-safe.
class SampleBoundaries {
 public:
  explicit SampleBoundaries(std::int64_t sample_count)
      : edges_(static_cast<std::size_t>(sample_count)) {}

  /// All parts in the range of `sample` have this key: its whole range was walked.
  void note(std::int64_t sample, std::string_view key);

  /// Requires: note(sample, …). Throws Error (kCorruptData) if a range beside the sample's has a
  /// part with its key. A neighbour whose headers are damaged is compared as far as they can be
  /// read.
  void check(const FileSource& tar, const TarIndex& index, std::int64_t sample);

 private:
  /// XXH3-64 of the keys of the first and the last part in a range; 0: not known.
  struct Edges {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };

  std::vector<Edges> edges_;
};

}  // namespace energon
