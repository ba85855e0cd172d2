// The shards of a prepared dataset as its summary has them. Private to io.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/shard_summary.h"

namespace energon {

/// Immutable, so safe to share between threads.
class SummarizedShards : public std::enable_shared_from_this<SummarizedShards> {
 public:
  /// The summary of the dataset in `folder`, whose .info.json has the content `info_text`. Null if
  /// the options ask for checks at opening, or if there is no summary that could replace them.
  /// Throws Error (kIo).
  static std::shared_ptr<const SummarizedShards> find(const std::string& folder,
                                                      std::string_view info_text,
                                                      const OpenOptions& options);

  SummarizedShards(std::string folder, const OpenOptions& options,
                   std::shared_ptr<const ShardSummary> summary);

  /// All shards, as in .info.json.
  DatasetInfo info() const;

  /// Fills in the shards of `set`, whose names are set and in the summary, without looking at them,
  /// and ShardSet::check. Requires that a shared_ptr owns this.
  void open(ShardSet& set, const OpenOptions& options) const;

 private:
  ShardFile describe(const SummarizedShard& shard) const;
  ShardFile check(const ShardFile& shard) const;

  const std::string folder_;
  const OpenOptions options_;
  const std::shared_ptr<const ShardSummary> summary_;
  std::unordered_map<std::string_view, std::size_t> positions_;  // by name
};

}  // namespace energon
