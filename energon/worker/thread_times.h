// Adds the times of the thread that drives a pipeline to its statistics block.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "energon/process/arena.h"
#include "energon/worker/statistics_block.h"

namespace energon {

/// How much of its busy time a thread really runs in one kind of call. Asking for a thread's CPU
/// time is a system call, a good part of what a small batch costs; so when calls are shorter than
/// 50 us it is asked once a millisecond, and the calls between count with the share of the last one
/// that was asked for. How long it waited for a core is asked at most once in ten milliseconds.
class CpuShare {
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

/// From construction to destruction: time that the pipeline is busy, CPU time of the thread, and
/// the time that it waited for a core. What the consumer was waited for meanwhile counts as that.
class BusyTime {
 public:
  /// All must outlive the object; `cpu` is that of the thread and of this kind of call.
  BusyTime(StatisticsBlock& block, CpuShare& cpu, const ArenaWriter& arena);
  /// Of a pipeline on the heap, which never waits.
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
  const std::chrono::nanoseconds waited_;  // by the arena, before
  const std::uint64_t ring_wait_ns_;       // in the block, before
  const std::chrono::steady_clock::time_point begin_;
  const std::optional<std::chrono::nanoseconds> cpu_begin_;  // if it is asked for
  const bool asks_wait_;
  const std::optional<std::chrono::nanoseconds> wait_begin_;  // if it is asked for, and known
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
/// The thread that helps to read (energon/read/read_helper.h) used `cpu_time` more. Called by the
/// thread that drives the pipeline.
void count_helper(StatisticsBlock& block, std::chrono::nanoseconds cpu_time);

}  // namespace energon
