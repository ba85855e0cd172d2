// Scans shards on several threads and returns the scans in order. Private to io.
//
// Only a few scans are in memory at a time: a thread waits before it takes a shard that is too far
// ahead of the next one to be returned.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "io/concurrency.h"
#include "io/dataset/shard_record.h"
#include "io/index/sample_index_writer.h"
#include "io/tar/shard_scan.h"

namespace energon {

struct ScannedShard {
  ShardScan scan = {};
  std::uint64_t tar_size = 0;
  // The following fields are set only by prepare().
  ShardRecord record = {};                   ///< without a name
  SampleRows rows = {};                      ///< instead of the samples of `scan`
  std::vector<std::string> part_names = {};  ///< distinct, in tar order, possibly incomplete
  std::exception_ptr error = nullptr;        ///< if set, there is no scan
};

/// Only one thread may call next(). The destructor waits for the shards that are being scanned.
class ScanPipeline {
 public:
  using Scan = std::function<ScannedShard(std::int64_t)>;

  /// `scan` is called for each shard in [0, shards), from any of `threads` threads.
  ScanPipeline(std::int64_t shards, int threads, std::stop_token stop, Scan scan);
  ~ScanPipeline();
  ScanPipeline(const ScanPipeline&) = delete;
  ScanPipeline& operator=(const ScanPipeline&) = delete;

  /// The next shard. Requires: fewer than `shards` calls before. Throws Error (kCancelled) once a
  /// stop is requested.
  ScannedShard next();

 private:
  void work();

  const std::int64_t shards_;
  const std::int64_t window_;
  const std::stop_token stop_;
  const Scan scan_;

  Mutex mutex_;
  StoppableCondition changed_;
  // Shard i is in slot i % window_.
  std::vector<std::optional<ScannedShard>> slots_ ENERGON_GUARDED_BY(mutex_);
  std::int64_t taken_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::int64_t handed_out_ ENERGON_GUARDED_BY(mutex_) = 0;
  bool is_abandoned_ ENERGON_GUARDED_BY(mutex_) = false;

  std::vector<std::jthread> pool_;  // last: joined before the members that it uses are destroyed
};

}  // namespace energon
