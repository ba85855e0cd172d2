#include "energon/worker/statistics_block.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <string>

#include "io/concurrency.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr std::uint64_t kStatisticsMagic = 0x3154415453474E45;  // "ENGSTAT1"
constexpr std::uint32_t kStatisticsVersion = 3;

std::chrono::nanoseconds load_time(const std::atomic<std::uint64_t>& counter) {
  // A scribbled counter must not become a negative time.
  constexpr std::uint64_t kMax = INT64_MAX;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(load_relaxed(counter), kMax)));
}

}  // namespace

StatisticsBlock& format_statistics(std::span<std::byte> memory) {
  if (memory.size() < sizeof(StatisticsBlock)) {
    throw Error(ErrorCode::kInternal, "the area for statistics is too small");
  }
  auto* const block = new (memory.data()) StatisticsBlock{};
  block->magic = kStatisticsMagic;
  block->version = kStatisticsVersion;
  return *block;
}

StatisticsBlock* find_statistics(std::span<std::byte> memory) {
  auto* const block = reinterpret_cast<StatisticsBlock*>(memory.data());
  const bool is_there = memory.size() >= sizeof(StatisticsBlock) &&
                        block->magic == kStatisticsMagic && block->version == kStatisticsVersion;
  return is_there ? block : nullptr;
}

StatisticsBlock& statistics_in(std::span<std::byte> memory) {
  StatisticsBlock* const block = find_statistics(memory);
  if (block == nullptr) {
    throw Error(ErrorCode::kCorruptData, "the shared memory holds no statistics of this build");
  }
  return *block;
}

StageCounters& add_stage(StatisticsBlock& block, std::string_view name) {
  const std::uint32_t count = block.stage_count.load(std::memory_order_relaxed);  // only writer
  if (count >= kMaxStages) {
    return block.stages.back().counters;
  }
  StageBlock& stage = block.stages[count];
  const std::string_view kept =
      count + 1 == kMaxStages ? std::string_view("(others)") : name.substr(0, kStageNameBytes);
  std::memcpy(stage.name.data(), kept.data(), kept.size());
  stage.name_size.store(static_cast<std::uint32_t>(kept.size()), std::memory_order_relaxed);
  block.stage_count.store(count + 1, std::memory_order_release);  // publishes the name
  return stage.counters;
}

std::optional<NotedWork> noted_work(std::span<std::byte> memory) {
  const StatisticsBlock* const block = find_statistics(memory);
  std::optional<NotedWork> work = block != nullptr ? read_note(block->work) : std::nullopt;
  if (work) {
    const StageBlock& stage = block->stages[std::min(work->stage, kMaxStages - 1)];
    const std::size_t size = std::min<std::size_t>(stage.name_size.load(std::memory_order_relaxed),
                                                   kStageNameBytes);  // as the note, after it
    work->stage_name = printable(std::string(stage.name.data(), size));
  }
  return work;
}

WorkerStatistics read_statistics(const StatisticsBlock& block) {
  WorkerStatistics worker{.batches = load_relaxed(block.batches),
                          .busy = load_time(block.busy_ns),
                          .consumer_wait = load_time(block.consumer_wait_ns),
                          .cpu = load_time(block.cpu_ns),
                          .cpu_wait = load_time(block.cpu_wait_ns),
                          .helper_cpu = load_time(block.helper_cpu_ns)};
  const std::size_t count = std::min<std::size_t>(block.stage_count.load(std::memory_order_acquire),
                                                  kMaxStages);  // sees the names
  for (const StageBlock& stage : std::span(block.stages).first(count)) {
    const std::size_t size = std::min<std::size_t>(stage.name_size.load(std::memory_order_relaxed),
                                                   kStageNameBytes);  // published above
    worker.stages.push_back({.name = printable(std::string(stage.name.data(), size)),
                             .samples = load_relaxed(stage.counters.samples),
                             .bytes = load_relaxed(stage.counters.bytes),
                             .busy = load_time(stage.counters.busy_ns),
                             .input_wait = load_time(stage.counters.input_wait_ns),
                             .skipped = load_relaxed(stage.counters.skipped),
                             .failed = load_relaxed(stage.counters.failed)});
  }
  return worker;
}

}  // namespace energon
