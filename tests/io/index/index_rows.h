// The rows of index.sqlite for tests, described concisely.

#pragma once

#include <string>
#include <vector>

#include "io/index/sample_index_writer.h"
#include "io/tar/shard_scan.h"

namespace energon::testing {

/// Writes `path` with these shards; each is the samples of one scan.
inline RepeatedKeys write_index(const std::string& path,
                                const std::vector<std::vector<ScannedSample>>& shards,
                                std::uint64_t sort_bytes = std::uint64_t{1} << 20) {
  SampleIndexWriter writer(path, sort_bytes);
  RowCounts before;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    ShardScan scan;
    scan.samples = shards[i];
    const RowCounts counts = count_rows(scan);
    writer.add(encode_rows(scan, static_cast<std::int64_t>(i), before));
    before.samples += counts.samples;
    before.parts += counts.parts;
  }
  constexpr std::size_t kMostNamed = 3;
  return writer.finish(kMostNamed);
}

}  // namespace energon::testing
