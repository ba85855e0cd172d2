#include "energon/worker/statistics_block.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/stage/thread_cpu_time.h"
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
    throw Error(ErrorCode::kCorruptData, "the shared memory has no statistics of this build");
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

std::optional<CurrentWork> current_work(std::span<std::byte> memory) {
  const StatisticsBlock* const block = find_statistics(memory);
  std::optional<CurrentWork> work = block != nullptr ? read_note(block->work) : std::nullopt;
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

// --- CurrentWorkBlock ---

namespace {

static_assert(sizeof(CurrentWorkBlock) == 1064);

constexpr std::size_t kWord = sizeof(std::uint64_t);

// Release: a reader that sees a word also sees the odd sequence before it.
void store(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  word.store(value, std::memory_order_release);
}

// Acquire: pairs with store(), so that a changed sequence is seen after a changed word.
std::uint64_t load(const std::atomic<std::uint64_t>& word) {
  return word.load(std::memory_order_acquire);
}

// Appends `piece` at `size` and returns the size after it.
template <std::size_t kWords>
std::size_t append(SharedText<kWords>& text, std::size_t size, std::string_view piece) {
  piece = piece.substr(0, kWords * kWord - size);
  while (!piece.empty()) {
    const std::size_t begin = size % kWord;
    const std::size_t count = std::min(kWord - begin, piece.size());
    std::uint64_t word =
        begin == 0 ? 0 : text.words[size / kWord].load(std::memory_order_relaxed);  // own
    std::memcpy(reinterpret_cast<char*>(&word) + begin, piece.data(), count);
    store(text.words[size / kWord], word);
    size += count;
    piece.remove_prefix(count);
  }
  return size;
}

template <std::size_t kWords>
void assign(SharedText<kWords>& text, std::string_view value) {
  store(text.size_bytes, append(text, 0, value));
}

template <std::size_t kWords>
std::string read(const SharedText<kWords>& text) {
  std::array<std::uint64_t, kWords> words{};
  const std::size_t size = std::min<std::size_t>(load(text.size_bytes), kWords * kWord);
  for (std::size_t i = 0; i * kWord < size; ++i) {
    words[i] = load(text.words[i]);
  }
  return {reinterpret_cast<const char*>(words.data()), size};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(printable(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::optional<CurrentWork> read_note(const CurrentWorkBlock& note) {
  const std::uint64_t before = load(note.sequence);
  CurrentWork work;
  work.stage = load(note.stage);
  work.samples = load(note.samples);
  const std::uint64_t index = load(note.index_in_shard);
  const std::string dataset = read(note.dataset);
  const std::string shard = read(note.shard);
  const std::string keys = read(note.keys);
  // Relaxed: the acquires before it keep it last.
  if (before % 2 != 0 || work.stage == 0 ||
      note.sequence.load(std::memory_order_relaxed) != before) {
    return std::nullopt;
  }
  --work.stage;
  work.keys = lines_of(keys);
  if (index != 0) {
    work.index_in_shard = index - 1;
    work.dataset = printable(dataset);
    work.shard = printable(shard);
  }
  return work;
}

std::uint64_t works_begun(const CurrentWorkBlock& note) {
  return note.sequence.load(std::memory_order_relaxed);  // nothing is ordered by it
}

std::string describe(const CurrentWork& work) {
  std::string text = fmt::format("in stage '{}'", work.stage_name);
  if (work.keys.empty()) {
    return text;
  }
  if (work.samples > 1) {
    text +=
        fmt::format(" on {} samples: '{}'{}; the first is", work.samples,
                    fmt::join(work.keys, "', '"), work.keys.size() < work.samples ? ", ..." : "");
  } else {
    text += fmt::format(" on sample '{}',", work.keys.front());
  }
  return text + (work.index_in_shard
                     ? fmt::format(" number {} of {}", *work.index_in_shard, work.shard)
                     : std::string(" of no known shard"));
}

void CurrentWorkWriter::begin(std::size_t stage, std::span<const Sample> samples) {
  const std::uint64_t odd = note_.sequence.load(std::memory_order_relaxed) | 1;  // only writer
  note_.sequence.store(odd, std::memory_order_relaxed);  // ordered by the releases that follow
  store(note_.stage, stage + 1);
  std::uint64_t count = 0;
  std::size_t size = 0;
  for (const Sample& sample : samples) {
    count += sample.keys.size();
    for (std::size_t i = 0; i < sample.keys.size() && size < sizeof(note_.keys.words); ++i) {
      if (size > 0) {
        size = append(note_.keys, size, "\n");
      }
      size = append(note_.keys, size, sample.keys[i]);
    }
  }
  store(note_.keys.size_bytes, size);
  store(note_.samples, count);
  if (samples.empty() || samples.front().sources.empty() ||
      !samples.front().sources.front().shard) {
    store(note_.index_in_shard, 0);
  } else {
    const SampleSource& source = samples.front().sources.front();
    if (source.shard != shard_) {
      shard_ = source.shard;
      assign(note_.dataset, shard_->dataset_path);
      assign(note_.shard, shard_->shard_name);
    }
    store(note_.index_in_shard, static_cast<std::uint64_t>(source.index_in_shard) + 1);
  }
  store(note_.sequence, odd + 1);
}

void CurrentWorkWriter::end() {
  // A single store: a reader that sees it ignores the rest.
  store(note_.stage, 0);
}

// --- Times of the thread ---

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kShortCall(500);
constexpr std::chrono::milliseconds kInterval(1);
constexpr std::chrono::milliseconds kWaitInterval(10);  // opens a file

double to_double(std::chrono::nanoseconds time) { return static_cast<double>(time.count()); }

}  // namespace

bool CpuShare::is_due(Clock::time_point now) const {
  return last_call_ >= kShortCall || now - asked_at_ >= kInterval;
}

bool CpuShare::is_wait_due(Clock::time_point now) const {
  return now - wait_asked_at_ >= kWaitInterval;
}

BusyTime::BusyTime(StatisticsBlock& block, CpuShare& cpu, const ArenaWriter* arena)
    : block_(block),
      cpu_(cpu),
      arena_(arena),
      waited_(arena != nullptr ? arena->waited() : std::chrono::nanoseconds(0)),
      ring_wait_ns_(block.consumer_wait_ns.load(std::memory_order_relaxed)),
      begin_(Clock::now()),
      cpu_begin_(cpu.is_due(begin_) ? std::optional(thread_cpu_time()) : std::nullopt),
      asks_wait_(cpu.is_wait_due(begin_)),
      wait_begin_(asks_wait_ ? thread_cpu_wait() : std::nullopt) {}

BusyTime::BusyTime(StatisticsBlock& block, CpuShare& cpu, const ArenaWriter& arena)
    : BusyTime(block, cpu, &arena) {}

BusyTime::BusyTime(StatisticsBlock& block, CpuShare& cpu) : BusyTime(block, cpu, nullptr) {}

BusyTime::~BusyTime() {
  const Clock::time_point end = Clock::now();
  const std::chrono::nanoseconds arena_wait =
      arena_ != nullptr ? arena_->waited() - waited_ : std::chrono::nanoseconds(0);
  const std::chrono::nanoseconds ring_wait(static_cast<std::int64_t>(
      block_.consumer_wait_ns.load(std::memory_order_relaxed) - ring_wait_ns_));
  const std::chrono::nanoseconds busy = end - begin_ - arena_wait - ring_wait;
  add_relaxed(block_.busy_ns, busy);
  add_relaxed(block_.consumer_wait_ns, arena_wait);
  cpu_.last_call_ = busy;
  add_cpu_wait(busy, end);
  if (!cpu_begin_) {
    add_relaxed(block_.cpu_ns,
                std::chrono::nanoseconds(std::llround(cpu_.share_ * to_double(busy))));
    return;
  }
  const std::chrono::nanoseconds used = thread_cpu_time() - *cpu_begin_;
  add_relaxed(block_.cpu_ns, used);
  cpu_.asked_at_ = end;
  if (busy > std::chrono::nanoseconds(0)) {
    cpu_.share_ = std::min(1.0, to_double(used) / to_double(busy));
  }
}

void BusyTime::add_cpu_wait(std::chrono::nanoseconds busy, Clock::time_point end) {
  if (asks_wait_) {
    cpu_.wait_asked_at_ = end;  // also if the system does not report it
  }
  std::optional<std::chrono::nanoseconds> waited;
  if (wait_begin_) {
    waited = thread_cpu_wait();
  }
  if (!waited) {
    add_relaxed(block_.cpu_wait_ns,
                std::chrono::nanoseconds(std::llround(cpu_.wait_share_ * to_double(busy))));
    return;
  }
  *waited = std::clamp(*waited - *wait_begin_, std::chrono::nanoseconds(0),
                       std::max(busy, std::chrono::nanoseconds(0)));
  add_relaxed(block_.cpu_wait_ns, *waited);
  cpu_.wait_share_ = busy.count() > 0 ? to_double(*waited) / to_double(busy) : 0;
}

ConsumerWait::ConsumerWait(StatisticsBlock& block) : block_(block), begin_(Clock::now()) {}

ConsumerWait::~ConsumerWait() { add_relaxed(block_.consumer_wait_ns, Clock::now() - begin_); }

void count_batch(StatisticsBlock& block) { add_relaxed(block.batches, 1); }

void count_helper(StatisticsBlock& block, std::chrono::nanoseconds cpu_time) {
  add_relaxed(block.helper_cpu_ns, cpu_time);
}

// --- LoaderMonitor ---

// Reports pending for the next message; each has at least one sample, usually only one.
static constexpr std::size_t kManyReports = 256;

StageCounters& LoaderMonitor::stage(std::string_view name) {
  auto found = stages_.find(name);
  if (found == stages_.end()) {
    found = stages_.emplace(name, &add_stage(block_, name)).first;
  }
  return *found->second;
}

void LoaderMonitor::begin_work(const StageCounters& stage, std::span<const Sample> samples) {
  if (check_ != nullptr) {
    check_->look();
  }
  // Counters of this monitor are in the block, at a fixed stride.
  const auto distance = reinterpret_cast<std::uintptr_t>(&stage) -
                        reinterpret_cast<std::uintptr_t>(&block_.stages.front().counters);
  work_.begin(distance / sizeof(StageBlock), samples);
}

void LoaderMonitor::report(const FailureReport& report) {
  reports_.push_back(report);
  if (reports_.size() >= kManyReports && on_many_reports_) {
    on_many_reports_();
  }
}

}  // namespace energon
