// The counters of one worker in shared memory. The parent can read them at any time, even after the
// worker's death. Without workers, the same struct is on the heap.
//
// The thread that drives the pipeline is the only writer. Every access is relaxed, because a reader
// needs only a recent value of each number. Layout: docs/formats/shared_memory.md.
//
// A CurrentWorkBlock records which samples a function is working on, BusyTime and ConsumerWait
// measure the times of the thread, and LoaderMonitor is the monitor that the pipeline reports to.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/process/arena.h"
#include "energon/process/wait.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/worker/statistics.h"

namespace energon {

// The work in progress in a worker's pipeline, in shared memory that can be read after its death.
// Used in the message about a worker that died or hangs in a user function.
//
// The thread that drives the pipeline is the only writer. A sequence word is odd while the note
// changes, so a reader gets a complete note or none. Layout: docs/formats/shared_memory.md.

/// Text in shared memory, cut to its capacity of 8 * kWords bytes.
template <std::size_t kWords>
struct SharedText {
  std::atomic<std::uint64_t> size_bytes{0};
  std::array<std::atomic<std::uint64_t>, kWords> words{};
};

/// Initially zero, which means that no function is running.
struct CurrentWorkBlock {
  std::atomic<std::uint64_t> sequence{0};
  std::atomic<std::uint64_t> stage{0};    ///< 1 + number of the stage; 0 if no function is running
  std::atomic<std::uint64_t> samples{0};  ///< number that the function works on
  std::atomic<std::uint64_t> index_in_shard{0};  ///< 1 + index of the first sample; 0 if not known
  SharedText<64> dataset;                        ///< of the first sample
  SharedText<31> shard;                          ///< of the first sample
  SharedText<31> keys;                           ///< as many as fit, one per line
};

/// A note that was read from shared memory; names are printable.
struct CurrentWork {
  std::size_t stage = 0;        ///< its number
  std::string stage_name = {};  ///< filled by current_work()
  std::uint64_t samples = 0;
  std::optional<std::uint64_t> index_in_shard = std::nullopt;
  std::string dataset = {};  ///< empty: not known
  std::string shard = {};
  std::vector<std::string> keys = {};  ///< the first ones
};

/// Returns nullopt if no function is running, or if the note is being changed.
std::optional<CurrentWork> read_note(const CurrentWorkBlock& note);

/// A number that changes at the start of each call of a function.
std::uint64_t works_begun(const CurrentWorkBlock& note);

/// "in stage 'encode_sample' on sample '000012', number 12 of shard-001.tar", for a message.
std::string describe(const CurrentWork& work);

/// Writes notes. Used by one thread.
class CurrentWorkWriter {
 public:
  /// `note` must outlive the writer.
  explicit CurrentWorkWriter(CurrentWorkBlock& note) : note_(note) {}

  /// Notes that a function of stage number `stage` begins to work on `samples`. Costs a few stores;
  /// writes the names of dataset and shard only if the shard changed.
  void begin(std::size_t stage, std::span<const Sample> samples);
  void end();

 private:
  CurrentWorkBlock& note_;
  std::shared_ptr<const SourceShard> shard_;  // the shard named in the note
};

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
  std::atomic<std::uint64_t> consumer_wait_ns{0};  ///< waiting for space in the ring or the arena
  std::atomic<std::uint64_t> cpu_ns{0};            ///< CPU time of the thread that makes batches
  std::atomic<std::uint64_t> helper_cpu_ns{0};     ///< CPU time of the thread that helps it read
  std::atomic<std::uint64_t> cpu_wait_ns{0};       ///< time ready to run, but without a core
  alignas(64) std::array<StageBlock, kMaxStages> stages = {};
  alignas(64) CurrentWorkBlock work = {};  ///< stages are identified by their index in `stages`
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
std::optional<CurrentWork> current_work(std::span<std::byte> memory);

/// The current numbers. Counts and sizes beyond their bounds are cut, and names are made printable.
WorkerStatistics read_statistics(const StatisticsBlock& block);

/// The share of its busy time in which a thread actually runs, for one kind of call. Querying a
/// thread's CPU time is a system call, which is expensive compared to a small batch. So while calls
/// are shorter than 500 us, the CPU time is measured once per millisecond, and the other calls are
/// assumed to have the share of the last measured call. The time spent waiting for a core is
/// measured at most once in ten milliseconds.
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

/// Counts a finished batch.
void count_batch(StatisticsBlock& block);
/// Adds `cpu_time` of the thread that helps to read (energon/read/read_helper.h). Called by the
/// thread that drives the pipeline.
void count_helper(StatisticsBlock& block, std::chrono::nanoseconds cpu_time);

/// The monitor of a pipeline that a loader runs: keeps counters in a statistics block, and reports
/// until they are sent. Used only by the thread that drives the pipeline.
class LoaderMonitor final : public PipelineMonitor {
 public:
  /// `block` must outlive the monitor. Counters of a block that was used before continue from their
  /// values.
  explicit LoaderMonitor(StatisticsBlock& block) : block_(block), work_(block.work) {}

  /// Sets a function that report() calls when too many reports are pending to wait for the end of
  /// the batch. The function should call take_reports(). An exception that it throws ends the
  /// pipeline.
  void set_on_many_reports(std::function<void()> on_many_reports) {
    on_many_reports_ = std::move(on_many_reports);
  }

  /// Sets a function that note_replayed() calls.
  void set_on_replayed(std::function<void()> on_replayed) { on_replayed_ = std::move(on_replayed); }

  /// Sets the check that begin_work() calls before each call of a function. It must outlive the
  /// monitor.
  void set_check(WaitCheck& check) { check_ = &check; }

  StageCounters& stage(std::string_view name) override;
  void report(const FailureReport& report) override;
  void begin_work(const StageCounters& stage, std::span<const Sample> samples) override;
  void end_work() override { work_.end(); }
  void note_replayed() override {
    if (on_replayed_) {
      on_replayed_();
    }
  }
  bool is_interrupted() const override { return check_ != nullptr && check_->has_ended_wait(); }

  StatisticsBlock& block() { return block_; }
  /// Returns the reports since the last call, in order.
  std::vector<FailureReport> take_reports() { return std::exchange(reports_, {}); }

 private:
  StatisticsBlock& block_;
  CurrentWorkWriter work_;
  std::map<std::string, StageCounters*, std::less<>> stages_;  // by full name
  std::function<void()> on_many_reports_;
  std::function<void()> on_replayed_;
  WaitCheck* check_ = nullptr;
  std::vector<FailureReport> reports_;
};

}  // namespace energon
