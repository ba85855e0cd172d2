// Adds the times of the thread that drives a pipeline to its statistics block.

#pragma once

#include <chrono>
#include <cstdint>

#include "energon/loader/statistics_block.h"
#include "energon/process/arena.h"

namespace energon {

/// From construction to destruction: time that the pipeline is busy, and CPU time of the thread.
/// What the consumer was waited for meanwhile counts as that.
class BusyTime {
 public:
  /// Both must outlive the object.
  BusyTime(StatisticsBlock& block, const ArenaWriter& arena);
  /// Of a pipeline on the heap, which never waits.
  explicit BusyTime(StatisticsBlock& block);
  ~BusyTime();
  BusyTime(const BusyTime&) = delete;
  BusyTime& operator=(const BusyTime&) = delete;

 private:
  StatisticsBlock& block_;
  const ArenaWriter* const arena_;
  const std::chrono::nanoseconds waited_;  // by the arena, before
  const std::uint64_t ring_wait_ns_;       // in the block, before
  const std::chrono::nanoseconds cpu_begin_;
  const std::chrono::steady_clock::time_point begin_;
};

/// From construction to destruction: time that the consumer is waited for.
class ConsumerWait {
 public:
  explicit ConsumerWait(StatisticsBlock& block);
  ~ConsumerWait();
  ConsumerWait(const ConsumerWait&) = delete;
  ConsumerWait& operator=(const ConsumerWait&) = delete;

 private:
  StatisticsBlock& block_;
  const std::chrono::steady_clock::time_point begin_;
};

/// A batch was made.
void count_batch(StatisticsBlock& block);

}  // namespace energon
