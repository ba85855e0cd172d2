// What one worker counts, as it lies in shared memory: the parent reads it at any time, also after
// the worker's death. Without workers the same struct is on the heap.
//
// One writer, the thread that drives the pipeline; every access is relaxed, because a reader wants
// no more than a recent value of each number. Bytes: docs/formats/shared_memory.md.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "energon/stage/pipeline_monitor.h"
#include "energon/worker/statistics.h"
#include "energon/worker/work_note.h"

namespace energon {

inline constexpr std::size_t kMaxStages = 64;
/// Bytes of a stage's name that are kept.
inline constexpr std::size_t kStageNameBytes = 47;

struct alignas(64) StageBlock {
  std::atomic<std::uint32_t> name_size{0};
  std::uint32_t reserved = 0;
  std::array<char, kStageNameBytes + 1> name{};
  StageCounters counters = {};
};

struct StatisticsBlock {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::atomic<std::uint32_t> stage_count{0};
  std::atomic<std::uint64_t> batches{0};           ///< made
  std::atomic<std::uint64_t> busy_ns{0};           ///< making batches
  std::atomic<std::uint64_t> consumer_wait_ns{0};  ///< for room in the ring or the arena
  std::atomic<std::uint64_t> cpu_ns{0};            ///< of the thread that makes batches
  std::atomic<std::uint64_t> helper_cpu_ns{0};     ///< of the thread that helps it to read
  std::atomic<std::uint64_t> cpu_wait_ns{0};       ///< ready to make batches, without a core
  alignas(64) std::array<StageBlock, kMaxStages> stages = {};
  alignas(64) WorkNote work = {};  ///< stages by their position in `stages`
};

static_assert(sizeof(StageBlock) == 128 &&
              offsetof(StatisticsBlock, work) == 64 + 128 * kMaxStages);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Makes an empty block in `memory`, which must be zero, aligned to 64 and large enough.
StatisticsBlock& format_statistics(std::span<std::byte> memory);
/// The block in `memory`; null if there is none of this build.
StatisticsBlock* find_statistics(std::span<std::byte> memory);
/// The same, or Error (kCorruptData).
StatisticsBlock& statistics_in(std::span<std::byte> memory);

/// Adds the record of a stage; its name is cut to kStageNameBytes. When all are taken, stages share
/// the last one, named "(others)". For the block's writer.
StageCounters& add_stage(StatisticsBlock& block, std::string_view name);

/// What the pipeline whose block lies in `memory` works on; nothing if it is in no function of the
/// user, or there is no block.
std::optional<NotedWork> noted_work(std::span<std::byte> memory);

/// The numbers as they are now. Counts and sizes out of their bounds are cut, names are made
/// printable.
WorkerStatistics read_statistics(const StatisticsBlock& block);

}  // namespace energon
