// The rows of one shard in `index.sqlite`, encoded. Private to io.
//
// Encoding takes most of the time of writing the index, and needs nothing of other shards but how
// many rows they have. So shards are encoded in parallel, and SampleIndexWriter only puts the cells
// into pages.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/index/row_encoder.h"
#include "io/tar/shard_scan.h"

namespace energon {

/// Rows of both tables, counted.
struct RowCounts {
  std::int64_t samples = 0;
  std::int64_t parts = 0;

  bool operator==(const RowCounts&) const = default;
};

RowCounts count_rows(const ShardScan& scan);

/// A key in the order of keys.
struct SortedKey {
  std::uint32_t size = 0;
  std::uint32_t sample_index = 0;
};

/// The cells of each table and index, and the keys, which are merged with those of other shards.
struct SampleRows {
  std::int64_t tar_file_id = 0;
  RowCounts counts = {};
  EncodedCells samples = {};
  EncodedCells samples_by_place = {};
  EncodedCells parts = {};
  EncodedCells parts_by_place = {};
  EncodedCells parts_by_name = {};
  std::string keys = {};  ///< sorted, one after another
  std::vector<SortedKey> sorted_keys = {};
};

/// Encodes the rows of shard `tar_file_id`; the shards before it have `before` rows.
SampleRows encode_rows(const ShardScan& scan, std::int64_t tar_file_id, const RowCounts& before);

}  // namespace energon
