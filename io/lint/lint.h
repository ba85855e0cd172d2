// Reads a whole dataset and reports all problems.
//
// Opening a dataset stops at the first problem; lint() continues and collects all problems. Each
// shard is scanned and compared with its index, the counts in .info.json, the rows of index.sqlite
// and, if present, its checksums (which reads every byte). JSON parts are parsed; for images and
// audio only the headers are read, and nothing is decoded; LintOptions::check_part can check the
// rest. In a JSONL file every line is parsed. In a metadataset, each dataset of its splits is read
// once, and each place in its join indices is looked up.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/tar/shard_scan.h"

namespace energon {

struct LintProblem {
  std::string dataset =
      {};                  ///< in a metadataset: the dataset at fault, or its own path; else empty
  std::string shard = {};  ///< empty: a problem in the dataset's own files
  std::optional<std::uint64_t> byte_offset = std::nullopt;
  std::optional<std::string> key = std::nullopt;
  std::string message = {};
};

struct LintReport {
  std::int64_t datasets = 1;
  std::int64_t shards = 0;               ///< a JSONL file counts as one
  std::int64_t samples = 0;              ///< scanned without error
  std::int64_t samples_checksummed = 0;  ///< compared with a stored digest
  std::vector<LintProblem> problems = {};
  std::vector<std::string> warnings = {};

  bool ok() const { return problems.empty(); }
};

struct LintProgress {
  std::string dataset = {};  ///< in a metadataset: the dataset being read; else empty
  std::int64_t shards_done = 0;
  std::int64_t shards_total = 0;
};

/// Reads the whole content of a part. Throws Error (kIo, kCorruptData).
using ReadPart = std::function<SharedBytes()>;
/// Checks a part, reading it if necessary. Returns the problem, such as "cannot be decoded: …", or
/// nullopt. Called concurrently.
using CheckPart =
    std::function<std::optional<std::string>(std::string_view part, const ReadPart& read)>;

struct LintOptions {
  /// Split files in .nv-meta to check; an entry without a value means split.yaml, else split.json.
  /// If empty, checks the split file that a reader uses, which dataset.yaml may name.
  std::vector<std::optional<std::string>> split_configs = {};
  std::optional<std::string> cache_dir = std::nullopt;  ///< for compressed shards
  std::optional<int> threads = std::nullopt;
  /// Whether a tar without final zero blocks, or with other data after them, is a warning or a
  /// problem.
  ScanStrictness strictness = ScanStrictness::kNormal;
  /// Called for each part in which lint() itself finds no problem, and for each line of a JSONL
  /// file, as part "json". An exception ends the shard.
  CheckPart check_part = nullptr;
  std::stop_token stop = {};
  /// Called after each shard, in order.
  std::function<void(const LintProgress&)> progress = nullptr;
};

/// `path` as for open_split(), or a metadataset or JSONL file. Throws Error only if nothing can be
/// checked (kNotFound, kIo, kInvalidArgument) or `stop` was requested (kCancelled); everything else
/// is in the report.
LintReport lint(const std::string& path, const LintOptions& options = {});

}  // namespace energon
