// Scans shards on threads and hands the scans out in order. Private to io.
//
// At most a few scans are in memory: a thread waits before it takes a shard that is too far ahead
// of the one that is handed out next.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "io/dataset/shard_record.h"
#include "io/tar/shard_scan.h"

namespace energon {

struct ScannedShard {
  ShardScan scan = {};
  std::uint64_t tar_size = 0;
  ShardRecord record = {};             ///< its name is not set; prepare() alone sets the rest
  std::exception_ptr error = nullptr;  ///< if set, there is no scan
};

/// next() is for one thread. The threads end with the object, after the shards they are scanning.
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

  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::vector<std::optional<ScannedShard>> slots_;  // shard i is in slot i % window_
  std::int64_t taken_ = 0;
  std::int64_t handed_out_ = 0;
  bool is_abandoned_ = false;

  std::vector<std::jthread> pool_;  // last: joined before what it uses goes
};

}  // namespace energon
