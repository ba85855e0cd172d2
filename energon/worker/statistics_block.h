// The counters of one worker in shared memory. The parent can read them at any time, even after the
// worker's death. Without workers, the same struct is on the heap.
//
// The thread that drives the pipeline is the only writer. Every access is relaxed, because a reader
// needs only a recent value of each number. Layout: docs/formats/shared_memory.md.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "energon/stage/dataset.h"
#include "energon/worker/statistics.h"
#include "energon/worker/work_note.h"

namespace energon {

inline constexpr std::size_t kMaxStages = 64;
/// Maximum stored length of a stage's name, in bytes.
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
  std::atomic<std::uint64_t> batches{0};           ///< batches made
  std::atomic<std::uint64_t> busy_ns{0};           ///< time making batches
  std::atomic<std::uint64_t> consumer_wait_ns{0};  ///< waiting for room in the ring or the arena
  std::atomic<std::uint64_t> cpu_ns{0};            ///< CPU time of the thread that makes batches
  std::atomic<std::uint64_t> helper_cpu_ns{0};     ///< CPU time of the thread that helps it read
  std::atomic<std::uint64_t> cpu_wait_ns{0};       ///< time ready to run, but without a core
  alignas(64) std::array<StageBlock, kMaxStages> stages = {};
  alignas(64) WorkNote work = {};  ///< stages are identified by their index in `stages`
};

static_assert(sizeof(StageBlock) == 128 &&
              offsetof(StatisticsBlock, work) == 64 + 128 * kMaxStages);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Makes an empty block in `memory`. Requires: `memory` is filled with zeros, aligned to 64 bytes
/// and large enough.
StatisticsBlock& format_statistics(std::span<std::byte> memory);
/// The block in `memory`; null if it holds no block of this build.
StatisticsBlock* find_statistics(std::span<std::byte> memory);
/// Like find_statistics(), but throws Error (kCorruptData) instead of returning null.
StatisticsBlock& statistics_in(std::span<std::byte> memory);

/// Adds a record for a stage. The name is cut to kStageNameBytes. When all records are used,
/// further stages share the last one, named "(others)". Called only by the writer of the block.
StageCounters& add_stage(StatisticsBlock& block, std::string_view name);

/// The work in progress in the pipeline whose block is in `memory`; nullopt if no user function is
/// running, or if there is no block.
std::optional<NotedWork> noted_work(std::span<std::byte> memory);

/// The current numbers. Counts and sizes beyond their bounds are cut, and names are made printable.
WorkerStatistics read_statistics(const StatisticsBlock& block);

}  // namespace energon
