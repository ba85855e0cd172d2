// Adds the times of the thread that drives a pipeline to its statistics block.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "energon/process/arena.h"
#include "energon/worker/statistics_block.h"

namespace energon {

/// The share of its busy time in which a thread really runs, for one kind of call. Querying a
/// thread's CPU time is a system call, which is a large part of the cost of a small batch. So while
/// calls are shorter than 500 us, the CPU time is measured once per millisecond, and the other
/// calls are assumed to have the share of the last measured call. The time spent waiting for a core
/// is measured at most once in ten milliseconds.
class CpuShare {
 public:
  /// Busy time of the last call.
  std::chrono::nanoseconds last_call() const { return last_call_; }

 private:
  friend class BusyTime;
  bool is_due(std::chrono::steady_clock::time_point now) const;

  bool is_wait_due(std::chrono::steady_clock::time_point now) const;

  std::chrono::steady_clock::time_point asked_at_;
  std::chrono::nanoseconds last_call_ = std::chrono::nanoseconds::max();
  double share_ = 1;

  std::chrono::steady_clock::time_point wait_asked_at_;
  double wait_share_ = 0;
};

/// Adds, from construction to destruction, the busy time of the pipeline, the CPU time of the
/// thread, and the time that it waited for a core. Time spent waiting for the consumer is counted
/// as such, not as busy time.
class BusyTime {
 public:
  /// All arguments must outlive the object. `cpu` is the CpuShare of this thread and this kind of
  /// call.
  BusyTime(StatisticsBlock& block, CpuShare& cpu, const ArenaWriter& arena);
  /// For a pipeline without an arena, which never waits for the consumer.
  BusyTime(StatisticsBlock& block, CpuShare& cpu);
  ~BusyTime();
  BusyTime(const BusyTime&) = delete;
  BusyTime& operator=(const BusyTime&) = delete;

 private:
  BusyTime(StatisticsBlock& block, CpuShare& cpu, const ArenaWriter* arena);
  void add_cpu_wait(std::chrono::nanoseconds busy, std::chrono::steady_clock::time_point end);

  StatisticsBlock& block_;
  CpuShare& cpu_;
  const ArenaWriter* const arena_;
  const std::chrono::nanoseconds waited_;  // wait time of the arena at construction
  const std::uint64_t ring_wait_ns_;       // wait time in the block at construction
  const std::chrono::steady_clock::time_point begin_;
  const std::optional<std::chrono::nanoseconds> cpu_begin_;  // if measured
  const bool asks_wait_;
  const std::optional<std::chrono::nanoseconds> wait_begin_;  // if measured and known
};

/// Adds the time from construction to destruction to the time spent waiting for the consumer.
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

/// Counts a batch that was made.
void count_batch(StatisticsBlock& block);
/// Adds `cpu_time` of the thread that helps to read (energon/read/read_helper.h). Called by the
/// thread that drives the pipeline.
void count_helper(StatisticsBlock& block, std::chrono::nanoseconds cpu_time);

}  // namespace energon
