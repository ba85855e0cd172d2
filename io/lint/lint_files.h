// lint() for the files of a dataset itself: .info.json, the split files, and which shards there
// are. Private to io.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/lint/lint.h"

namespace energon {

/// What the dataset's own files say. Plain tars have only a folder and names.
struct LintedDataset {
  std::string folder = {};
  std::vector<std::string> shards = {};
  std::vector<std::int64_t> counts = {};  ///< as in .info.json; empty if there is none
  std::string sqlite_path = {};           ///< empty if there is none
  std::optional<ShardRecords> records = std::nullopt;
  std::shared_ptr<const ShardSummary> summary = nullptr;  ///< null if there is none
};

/// Reads the files of the dataset at `path`, checks the split files, and adds what is wrong to
/// `report`. Throws Error as lint().
LintedDataset lint_files(const std::string& path, const LintOptions& options, LintReport& report);

/// The problem that `error` tells of; `shard` may be empty.
LintProblem problem_of(const std::string& shard, const Error& error);

}  // namespace energon
