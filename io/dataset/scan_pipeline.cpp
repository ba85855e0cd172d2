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
    if (pool_.empty()) {  // else those that are there do the work
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("cannot start a thread: {}; raise the limit of processes (ulimit -u)",
                              error.code().message()));
    }
  }
}

ScanPipeline::~ScanPipeline() {
  {
    const std::lock_guard lock(mutex_);
    is_abandoned_ = true;
  }
  changed_.notify_all();
}

ScannedShard ScanPipeline::next() {
  std::unique_lock lock(mutex_);
  auto& slot = slots_[static_cast<std::size_t>(handed_out_ % window_)];
  changed_.wait(lock, stop_, [&] { return slot.has_value(); });
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
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop_, [&] {
      return is_abandoned_ || taken_ == shards_ || taken_ < handed_out_ + window_;
    });
    if (is_abandoned_ || stop_.stop_requested() || taken_ == shards_) {
      return;
    }
    const std::int64_t i = taken_++;
    lock.unlock();
    ScannedShard shard;
    try {
      shard = scan_(i);
    } catch (...) {
      shard.error = std::current_exception();
    }
    lock.lock();
    slots_[static_cast<std::size_t>(i % window_)] = std::move(shard);
    lock.unlock();
    changed_.notify_all();
  }
}

}  // namespace energon
