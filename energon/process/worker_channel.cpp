#include "energon/process/worker_channel.h"

#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/error.h"

namespace energon {

/// First bytes of the reservation; the worker learns all sizes from it.
struct ChannelHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::atomic<std::uint32_t> closing;
  std::uint64_t total_bytes;
  std::uint64_t prefetch_units;
  std::uint64_t prefetch_bytes;
  std::uint64_t sample_ring_bytes;
  std::uint64_t command_ring_bytes;
  std::uint64_t result_ring_bytes;
  std::uint64_t checkpoint_rings;
  std::uint32_t checkpoint_slots;
  std::uint32_t checkpoint_history_slots;
  std::uint64_t checkpoint_slot_bytes;
  std::uint64_t arena_limit_bytes;
  std::uint64_t arena_reserve_bytes;
  std::uint64_t arena_keep_free_bytes;
  std::int64_t starvation_limit_ms;
  std::uint64_t checkpoint_history_bytes;
  alignas(64) WorkerStatus status;
};

namespace {

constexpr std::uint64_t kChannelMagic = 0x314E414843474E45;  // "ENGCHAN1"
constexpr std::uint32_t kChannelVersion = 7;
static_assert(sizeof(ChannelHeader) == 192);  // less than a page

/// One per waiting thread; their order is that of the descriptors, after the memory.
enum BellIndex : std::size_t {
  kParentSamples,
  kParentCommands,
  kWorkerMain,
  kWorkerCommands,
  kBells,
};

struct Layout {
  std::uint64_t commands = 0;
  std::uint64_t results = 0;
  std::uint64_t samples = 0;
  std::uint64_t returns = 0;
  std::uint64_t checkpoints = 0;
  std::uint64_t statistics = 0;
  std::uint64_t arena = 0;
  std::uint64_t total = 0;
};

std::uint64_t checkpoint_ring_stride(const ChannelOptions& options) {
  return align_up(checkpoint_ring_footprint(options.checkpoints), page_bytes());
}

SharedRange checkpoint_range(const std::shared_ptr<SharedMemory>& memory, std::uint64_t checkpoints,
                             std::uint64_t ring, const ChannelOptions& options) {
  return shared_range(memory, checkpoints + ring * checkpoint_ring_stride(options),
                      checkpoint_ring_footprint(options.checkpoints));
}

Layout layout_of(const ChannelOptions& options) {
  Layout layout;
  std::uint64_t next = page_bytes();
  const auto place = [&next](std::uint64_t size) {
    return std::exchange(next, align_up(next + size, page_bytes()));
  };
  layout.commands = place(ring_footprint(options.command_ring_bytes));
  layout.results = place(ring_footprint(options.result_ring_bytes));
  layout.samples = place(ring_footprint(options.sample_ring_bytes));
  layout.returns = place(ring_footprint(kReturnRingBytes));
  layout.checkpoints = next;
  for (std::uint64_t ring = 0; ring < options.checkpoint_rings; ++ring) {
    place(checkpoint_ring_stride(options));
  }
  layout.statistics = place(kStatisticsBytes);
  layout.arena = place(arena_footprint(options.arena.limit_bytes, options.arena.reserve_bytes));
  layout.total = next;
  return layout;
}

void check(const ChannelOptions& options) {
  constexpr std::uint64_t kMaxRing = std::uint64_t{1} << 40;
  constexpr std::uint64_t kMaxCheckpoints = std::uint64_t{1} << 46;
  if (options.checkpoint_rings == 0 ||
      checkpoint_ring_stride(options) > kMaxCheckpoints / options.checkpoint_rings) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} checkpoint rings of {} slots of {} bytes; expected at least 1 ring "
                            "and at most 2^46 "
                            "bytes in total",
                            options.checkpoint_rings, options.checkpoints.slots,
                            options.checkpoints.slot_bytes));
  }
  if (options.prefetch_units == 0) {
    throw Error(ErrorCode::kInvalidArgument, "prefetch_units must be at least 1");
  }
  for (const std::uint64_t size :
       {options.command_ring_bytes, options.result_ring_bytes, options.sample_ring_bytes}) {
    if (size > kMaxRing) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a ring of {} bytes, expected at most {}", size, kMaxRing));
    }
  }
}

SharedRange ring_range(const std::shared_ptr<SharedMemory>& memory, std::uint64_t offset,
                       std::uint64_t capacity) {
  return shared_range(memory, offset, ring_footprint(capacity));
}

ChannelHeader* header_of(const SharedMemory& memory) {
  return reinterpret_cast<ChannelHeader*>(memory.data());
}

/// The parent's header, checked against the size of the memory.
ChannelOptions options_of(const SharedMemory& memory) {
  const ChannelHeader& header = *header_of(memory);
  if (memory.size() < sizeof(header) || header.magic != kChannelMagic ||
      header.version != kChannelVersion || header.total_bytes != memory.size()) {
    throw Error(ErrorCode::kCorruptData, "the shared memory is not a worker channel of this build");
  }
  ChannelOptions options;
  options.prefetch_units = header.prefetch_units;
  options.prefetch_bytes = header.prefetch_bytes;
  options.sample_ring_bytes = header.sample_ring_bytes;
  options.command_ring_bytes = header.command_ring_bytes;
  options.result_ring_bytes = header.result_ring_bytes;
  options.checkpoint_rings = header.checkpoint_rings;
  options.checkpoints = {.slots = header.checkpoint_slots,
                         .slot_bytes = header.checkpoint_slot_bytes,
                         .history_slots = header.checkpoint_history_slots,
                         .history_bytes = header.checkpoint_history_bytes};
  options.arena = {.limit_bytes = header.arena_limit_bytes,
                   .reserve_bytes = header.arena_reserve_bytes,
                   .keep_free_bytes = header.arena_keep_free_bytes,
                   .starvation_limit = std::chrono::milliseconds(header.starvation_limit_ms)};
  return options;
}

// Writes the header, from which the worker learns the layout.
ChannelHeader* new_header(SharedMemory& memory, const ChannelOptions& options) {
  auto* const header = new (memory.data()) ChannelHeader{};
  header->magic = kChannelMagic;
  header->version = kChannelVersion;
  header->total_bytes = memory.size();
  header->prefetch_units = options.prefetch_units;
  header->prefetch_bytes = options.prefetch_bytes;
  header->sample_ring_bytes = options.sample_ring_bytes;
  header->command_ring_bytes = options.command_ring_bytes;
  header->result_ring_bytes = options.result_ring_bytes;
  header->checkpoint_rings = options.checkpoint_rings;
  header->checkpoint_slots = options.checkpoints.slots;
  header->checkpoint_slot_bytes = options.checkpoints.slot_bytes;
  header->checkpoint_history_slots = options.checkpoints.history_slots;
  header->checkpoint_history_bytes = options.checkpoints.history_bytes;
  header->arena_limit_bytes = options.arena.limit_bytes;
  header->arena_reserve_bytes = options.arena.reserve_bytes;
  header->arena_keep_free_bytes = options.arena.keep_free_bytes;
  header->starvation_limit_ms = options.arena.starvation_limit.count();
  return header;
}

}  // namespace

std::uint64_t channel_footprint(const ChannelOptions& options) {
  check(options);
  return layout_of(options).total;
}

// --- Parent ---

ParentEndpoint::ParentEndpoint(const ChannelOptions& options) {
  check(options);
  const Layout layout = layout_of(options);
  memory_ = SharedMemory::create(layout.total);
  memory_->list_for_children();
  for (std::size_t i = 0; i < kBells; ++i) {
    doorbells_.push_back(std::make_shared<const Doorbell>());
  }
  header_ = new_header(*memory_, options);
  const auto formatted = [this](std::uint64_t offset, std::uint64_t capacity) {
    SharedRange range = ring_range(memory_, offset, capacity);
    format_ring(range, capacity);
    return range;
  };
  commands_ = std::make_unique<RingWriter>(formatted(layout.commands, options.command_ring_bytes),
                                           doorbells_[kWorkerCommands], doorbells_[kParentCommands],
                                           RingWriterOptions{});
  results_ = std::make_unique<RingReader>(formatted(layout.results, options.result_ring_bytes),
                                          doorbells_[kWorkerCommands], doorbells_[kParentCommands]);
  samples_ = std::make_unique<RingReader>(
      formatted(layout.samples, options.sample_ring_bytes), doorbells_[kWorkerMain],
      doorbells_[kParentSamples], RingReaderOptions{.spins = options.parent_spins, .naps = true});
  auto returns = std::make_unique<RingWriter>(formatted(layout.returns, kReturnRingBytes),
                                              doorbells_[kWorkerMain], doorbells_[kParentSamples]);
  arena_ = std::make_unique<ArenaReader>(
      shared_range(memory_, layout.arena, layout.total - layout.arena), std::move(returns));
  for (std::uint64_t ring = 0; ring < options.checkpoint_rings; ++ring) {
    checkpoints_.emplace_back(checkpoint_range(memory_, layout.checkpoints, ring, options),
                              options.checkpoints);
  }
  statistics_ = {memory_->data() + layout.statistics, kStatisticsBytes};
}

ParentEndpoint::~ParentEndpoint() {
  if (!owner_.is_current()) {
    return;
  }
  close();
  try {
    arena_->leave(worker_has_ended_);
  } catch (const std::bad_alloc&) {
    // The last lease then releases the memory.
  }
}

const WorkerStatus& ParentEndpoint::status() const { return header_->status; }

std::vector<int> ParentEndpoint::descriptors() const {
  std::vector<int> result{memory_->fd()};
  for (const auto& bell : doorbells_) {
    result.push_back(bell->fd());
  }
  return result;
}

void ParentEndpoint::close() {
  owner_.check("a worker channel");
  header_->closing.store(1, std::memory_order_release);  // before the wake-ups that follow
  commands_->close();
  results_->close();
  samples_->close();
  arena_->close();
}

// --- Worker ---

WorkerEndpoint::WorkerEndpoint(std::vector<UniqueFd> descriptors) {
  if (descriptors.size() != kBells + 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} descriptors for a worker channel, expected {}", descriptors.size(),
                            kBells + 1));
  }
  memory_ = SharedMemory::attach(std::move(descriptors.front()));
  for (std::size_t i = 1; i < descriptors.size(); ++i) {
    doorbells_.push_back(std::make_shared<const Doorbell>(std::move(descriptors[i])));
  }
  const ChannelOptions options = options_of(*memory_);
  const Layout layout = layout_of(options);
  header_ = header_of(*memory_);

  commands_ =
      std::make_unique<RingReader>(ring_range(memory_, layout.commands, options.command_ring_bytes),
                                   doorbells_[kParentCommands], doorbells_[kWorkerCommands]);
  results_ = std::make_unique<RingWriter>(
      ring_range(memory_, layout.results, options.result_ring_bytes), doorbells_[kParentCommands],
      doorbells_[kWorkerCommands], RingWriterOptions{});
  samples_ =
      std::make_unique<RingWriter>(ring_range(memory_, layout.samples, options.sample_ring_bytes),
                                   doorbells_[kParentSamples], doorbells_[kWorkerMain],
                                   RingWriterOptions{.max_units = options.prefetch_units,
                                                     .max_weight = options.prefetch_bytes,
                                                     .remedy = "make batches of fewer samples"});
  auto returned =
      std::make_unique<RingReader>(ring_range(memory_, layout.returns, kReturnRingBytes),
                                   doorbells_[kParentSamples], doorbells_[kWorkerMain]);
  arena_ = std::make_unique<ArenaWriter>(
      shared_range(memory_, layout.arena, layout.total - layout.arena), std::move(returned),
      options.arena);
  arena_->set_consumer_waits([ring = samples_.get()] { return ring->reader_waits(); });
  for (std::uint64_t ring = 0; ring < options.checkpoint_rings; ++ring) {
    checkpoints_.emplace_back(checkpoint_range(memory_, layout.checkpoints, ring, options),
                              options.checkpoints);
  }
  const SharedRange statistics = shared_range(memory_, layout.statistics, kStatisticsBytes);
  statistics_ = {statistics.data(), statistics.size};
}

WorkerEndpoint::~WorkerEndpoint() = default;

WorkerStatus& WorkerEndpoint::status() { return header_->status; }

bool WorkerEndpoint::closing() const {
  return header_->closing.load(std::memory_order_acquire) != 0;  // sees what the parent did before
}

void WorkerEndpoint::close() {
  commands_->close();
  results_->close();
  samples_->close();
  arena_->close();
}

void WorkerStatus::advance() { add_relaxed(progress, 1); }

void WorkerStatus::set_item(WorkItem item) {
  const std::uint64_t odd = item_sequence.load(std::memory_order_relaxed) | 1;  // only writer
  item_sequence.store(odd, std::memory_order_relaxed);        // ordered by the releases that follow
  item_first.store(item.first, std::memory_order_release);    // after `odd`
  item_second.store(item.second, std::memory_order_release);  // after `odd`
  item_sequence.store(odd + 1, std::memory_order_release);    // after both
}

std::uint64_t WorkerStatus::progress_count() const { return load_relaxed(progress); }
std::uint64_t WorkerStatus::bytes_read_count() const { return load_relaxed(bytes_read); }

std::optional<WorkItem> WorkerStatus::item() const {
  const std::uint64_t before = item_sequence.load(std::memory_order_acquire);  // item after it
  if (before == 0 || before % 2 != 0) {
    return std::nullopt;
  }
  const WorkItem item{item_first.load(std::memory_order_acquire),    // before the second look
                      item_second.load(std::memory_order_acquire)};  // likewise
  if (item_sequence.load(std::memory_order_relaxed) != before) {     // kept last by the acquires
    return std::nullopt;
  }
  return item;
}

}  // namespace energon
