// What of an earlier prepare need not be done again. Private to io.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/dataset/dataset_info.h"
#include "io/dataset/shard_record.h"
#include "io/index/sample_index_writer.h"

namespace energon {

/// The first shards of a dataset, unchanged since they were prepared: their indices stay, and their
/// rows are taken over.
struct EarlierPrepare {
  std::vector<ShardCount> shards = {};
  std::vector<SummarizedShard> summary = {};  ///< of these shards
  std::unique_ptr<EarlierIndex> index = {};   ///< has the rows of these shards and no others
  std::uint64_t bytes = 0;                    ///< of the tars, as far as they have samples

  std::int64_t count() const { return static_cast<std::int64_t>(shards.size()); }
};

struct EarlierChoice {
  EarlierPrepare prepare = {};
  std::string why_none = {};  ///< if nothing can be taken over, though there was a prepare
};

/// Looks at the earlier prepare of `dataset_path`. It can be taken over if its shards are the first
/// of `names`, in the same order, and if each has the recorded size, modification time, headers and
/// index, and a file of checksums if `needs_checksums`. Everything else is a reason to scan all
/// shards again. `threads` compare the shards.
EarlierChoice find_earlier_prepare(const std::string& dataset_path,
                                   std::span<const std::string> names, bool needs_checksums,
                                   int threads);

}  // namespace energon
