#include "io/dataset/scan_pipeline.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

ScanPipeline::ScanPipeline(std::int64_t shards, int threads, std::stop_token stop, Scan scan)
    : shards_(shards),
      window_(std::int64_t{2} * threads),
      stop_(std::move(stop)),
      scan_(std::move(scan)),
      slots_(static_cast<std::size_t>(window_)) {
  try {
    for (int i = 0; i < threads; ++i) {
      pool_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& error) {
    if (pool_.empty()) {  // otherwise the running threads do the work
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("cannot start a thread: {}; raise the process limit (ulimit -u)",
                              error.code().message()));
    }
  }
}

ScanPipeline::~ScanPipeline() {
  {
    const MutexLock lock(mutex_);
    is_abandoned_ = true;
  }
  changed_.notify_all();
}

ScannedShard ScanPipeline::next() {
  MutexLock lock(mutex_);
  auto& slot = slots_[static_cast<std::size_t>(handed_out_ % window_)];
  while (!slot.has_value() && changed_.wait(mutex_, stop_)) {
  }
  if (stop_.stop_requested()) {
    throw Error(ErrorCode::kCancelled, "stopped while the shards were being scanned");
  }
  ScannedShard shard = std::move(*slot);
  slot.reset();
  ++handed_out_;
  lock.unlock();
  changed_.notify_all();
  return shard;
}

void ScanPipeline::work() {
  while (true) {
    std::int64_t i = 0;
    {
      const MutexLock lock(mutex_);
      while (!is_abandoned_ && taken_ < shards_ && taken_ >= handed_out_ + window_ &&
             changed_.wait(mutex_, stop_)) {
      }
      if (is_abandoned_ || stop_.stop_requested() || taken_ == shards_) {
        return;
      }
      i = taken_++;
    }
    ScannedShard shard;
    try {
      shard = scan_(i);
    } catch (...) {
      shard.error = std::current_exception();
    }
    {
      const MutexLock lock(mutex_);
      slots_[static_cast<std::size_t>(i % window_)] = std::move(shard);
    }
    changed_.notify_all();
  }
}

}  // namespace energon
