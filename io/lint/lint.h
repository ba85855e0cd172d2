// Reads a whole dataset and reports everything that is wrong with it.
//
// Opening a dataset stops at the first problem; this goes on and collects. Each shard is scanned
// and compared with its index, the counts of .info.json, the rows of index.sqlite and, if there are
// any, its checksums (which reads every byte). JSON parts are parsed, and of pictures and sounds
// the headers are read; nothing is decoded. Of a JSONL file every line is parsed. Of a metadataset
// each dataset that its splits name is read once, and each place of its join indices is looked up.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/tar/shard_scan.h"

namespace energon {

struct LintProblem {
  std::string dataset = {};  ///< path of the one at fault in a metadataset, or its own; else empty
  std::string shard = {};    ///< empty: the dataset's own files
  std::optional<std::uint64_t> byte_offset = std::nullopt;
  std::optional<std::string> key = std::nullopt;
  std::string message = {};
};

struct LintReport {
  std::int64_t datasets = 1;
  std::int64_t shards = 0;               ///< a JSONL file is one
  std::int64_t samples = 0;              ///< scanned without error
  std::int64_t samples_checksummed = 0;  ///< compared with a stored digest
  std::vector<LintProblem> problems = {};
  std::vector<std::string> warnings = {};

  bool ok() const { return problems.empty(); }
};

struct LintProgress {
  std::string dataset = {};  ///< of a metadataset, the one that is read; else empty
  std::int64_t shards_done = 0;
  std::int64_t shards_total = 0;
};

struct LintOptions {
  /// Split files in .nv-meta to check; nothing is split.yaml, else split.json. Empty: the one that
  /// reading takes, which dataset.yaml may name.
  std::vector<std::optional<std::string>> split_configs = {};
  std::optional<std::string> cache_dir = std::nullopt;  ///< for compressed shards
  std::optional<int> threads = std::nullopt;
  /// Tars that do not end with zero blocks, or have other data behind them: a warning or a problem.
  ScanStrictness strictness = ScanStrictness::kNormal;
  std::stop_token stop = {};
  /// Called after each shard, in order.
  std::function<void(const LintProgress&)> progress = nullptr;
};

/// `path` as for open_split(), or a metadataset or JSONL file. Throws Error only where nothing can
/// be checked (kNotFound, kIo, kInvalidArgument) or the work was stopped (kCancelled); all else is
/// in the report.
LintReport lint(const std::string& path, const LintOptions& options = {});

}  // namespace energon
