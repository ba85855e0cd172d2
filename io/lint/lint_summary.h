// lint() for the summary of the shards (io/dataset/shard_record.h): it must say what the other
// files say. Private to io.

#pragma once

#include <memory>
#include <string>

#include "io/dataset/shard_record.h"
#include "io/lint/lint_files.h"

namespace energon {

/// The summary that belongs to `dataset`, whose names, counts and records are set; null if there is
/// none. Adds to `report` that it is damaged or contradicts them.
std::shared_ptr<const ShardSummary> lint_summary(const LintedDataset& dataset, LintReport& report);

/// Compares it with the index and the checksum file of the shard in `folder`. Returns a problem;
/// empty if there is none. Throws Error if a file cannot be read.
std::string lint_summarized(const SummarizedShard& shard, const std::string& folder);

}  // namespace energon
