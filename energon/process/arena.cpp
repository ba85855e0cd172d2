#include "energon/process/arena.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/process/fail_point.h"
#include "energon/process/shared_memory.h"
#include "io/concurrency.h"
#include "io/error.h"

namespace energon {

// --- Layout ---

namespace {

// The smallest slot is one page.
std::size_t min_shift() { return static_cast<std::size_t>(std::countr_zero(page_bytes())); }

std::uint64_t slot_bytes_of(std::size_t size_class) {
  return std::uint64_t{1} << (size_class + min_shift());
}

std::size_t class_count(std::uint64_t limit_bytes) { return size_class_of(limit_bytes) + 1; }

// A slot in use was charged more than half its size, so no more than this many fit in the limit.
std::uint64_t most_slots(std::uint64_t limit_bytes, std::size_t size_class) {
  return std::min(limit_bytes / (slot_bytes_of(size_class) / 2) + 1, 2 * kMaxSlotsHeld);
}

void check_arena_limit(std::uint64_t limit_bytes) {
  if (limit_bytes < page_bytes() || limit_bytes > kMaxArenaLimitBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("arena_limit_bytes is {} bytes, but must be from {} to {}", limit_bytes,
                            page_bytes(), kMaxArenaLimitBytes));
  }
}

}  // namespace

std::size_t size_class_of(std::uint64_t size_bytes) {
  const auto shift =
      static_cast<std::size_t>(std::bit_width(std::max<std::uint64_t>(size_bytes, 1) - 1));
  return std::max(shift, min_shift()) - min_shift();
}

// Without a reserve, each size gets all slots that can be needed. With one, it gets one slot and an
// equal share of the rest of the reserve.
std::vector<SizeClassLayout> size_class_layouts(std::uint64_t limit_bytes,
                                                std::uint64_t reserve_bytes) {
  const std::uint64_t least = least_arena_footprint(limit_bytes);
  if (reserve_bytes != 0 && reserve_bytes < least) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("an arena of limit {} needs at least {} bytes of address space, found {}",
                    limit_bytes, least, reserve_bytes));
  }
  std::vector<SizeClassLayout> layouts(class_count(limit_bytes));
  std::uint64_t base = 0;
  std::uint64_t left = reserve_bytes - (reserve_bytes != 0 ? least : 0);
  for (std::size_t c = 0; c < layouts.size(); ++c) {
    const std::uint64_t slot_bytes = slot_bytes_of(c);
    std::uint64_t slots = most_slots(limit_bytes, c);
    if (reserve_bytes != 0) {
      slots = std::min(slots, 1 + left / (layouts.size() - c) / slot_bytes);
      left -= (slots - 1) * slot_bytes;
    }
    layouts[c] = {base, slot_bytes, slots};
    base += slots * slot_bytes;
  }
  return layouts;
}

std::uint64_t arena_footprint(std::uint64_t limit_bytes, std::uint64_t reserve_bytes) {
  const SizeClassLayout largest = size_class_layouts(limit_bytes, reserve_bytes).back();
  return largest.base + largest.slot_limit * largest.slot_bytes;
}

std::uint64_t least_arena_footprint(std::uint64_t limit_bytes) {
  check_arena_limit(limit_bytes);
  return ((std::uint64_t{1} << class_count(limit_bytes)) - 1) << min_shift();
}

namespace {

constexpr std::chrono::milliseconds kCheckPeriod{50};

}  // namespace

// --- ArenaSlot ---

ArenaSlot::~ArenaSlot() {
  if (arena_ != nullptr) {
    arena_->give_back(slot_);
  }
}

void ArenaSlot::swap(ArenaSlot& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(slot_, other.slot_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
}

void ArenaSlot::resize(std::uint64_t size_bytes, const Wait& wait) {
  if (arena_ == nullptr) {
    throw Error(ErrorCode::kInternal, "cannot resize an arena slot that is empty or published");
  }
  if (size_bytes <= capacity_ && arena_->charge(slot_, size_bytes)) {
    size_ = size_bytes;
    return;
  }
  ArenaSlot larger = arena_->acquire(size_bytes, wait);
  std::memcpy(larger.data_, data_, std::min(size_, size_bytes));
  swap(larger);
}

SlotReference ArenaSlot::publish() {
  if (arena_ == nullptr) {
    throw Error(ErrorCode::kInternal, "cannot publish an arena slot that is empty or published");
  }
  ArenaWriter::Slot& slot = arena_->slots_[slot_];
  slot.state = ArenaWriter::SlotState::kHeld;
  ++slot.tag;
  ++arena_->held_;
  arena_->held_bytes_ += slot.touched_bytes;
  const SlotReference reference{slot.offset, size_, slot_, slot.tag};
  arena_ = nullptr;
  ArenaSlot().swap(*this);
  return reference;
}

// --- ArenaWriter ---

ArenaWriter::ArenaWriter(SharedRange range, std::unique_ptr<RingReader> returned,
                         ArenaOptions options)
    : range_(std::move(range)), returned_(std::move(returned)), options_(options) {
  const std::uint64_t footprint = arena_footprint(options_.limit_bytes, options_.reserve_bytes);
  if (range_.size < footprint) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an arena of limit {} needs {} bytes of address space, found {}",
                            options_.limit_bytes, footprint, range_.size));
  }
  for (const SizeClassLayout& layout :
       size_class_layouts(options_.limit_bytes, options_.reserve_bytes)) {
    classes_.emplace_back().layout = layout;
  }
}

ArenaSlot ArenaWriter::acquire(std::uint64_t size_bytes, const Wait& wait) {
  ENERGON_FAIL_POINT("arena.acquire");
  if (align_up(std::min(size_bytes, kMaxArenaLimitBytes + 1), page_bytes()) >
      options_.limit_bytes) {
    refuse(size_bytes, "it alone is larger than the limit");
  }
  Deadline starved_at = kNever;
  for (;;) {
    collect();
    if (auto slot = try_acquire(size_bytes)) {
      return std::move(*slot);
    }
    ENERGON_FAIL_POINT("waiting.for_space");
    wait_for_return(size_bytes, wait, starved_at);
  }
}

std::optional<ArenaSlot> ArenaWriter::try_acquire(std::uint64_t size_bytes) {
  if (held_ >= kMaxSlotsHeld) {
    return std::nullopt;
  }
  std::optional<std::uint32_t> taken;
  for (std::size_t c = size_class_of(size_bytes); !taken && c < classes_.size(); ++c) {
    taken = take_slot(classes_[c]);
  }
  if (!taken) {
    return std::nullopt;
  }
  const std::uint32_t number = *taken;
  slots_[number].state = SlotState::kWriting;
  if (!charge(number, size_bytes)) {
    give_back(number);
    return std::nullopt;
  }
  ArenaSlot slot;
  slot.arena_ = this;
  slot.slot_ = number;
  slot.data_ = range_.data() + slots_[number].offset;
  slot.size_ = size_bytes;
  slot.capacity_ = classes_[slots_[number].size_class].layout.slot_bytes;
  return slot;
}

std::optional<std::uint32_t> ArenaWriter::take_slot(SizeClass& size_class) {
  const SizeClassLayout& layout = size_class.layout;
  std::uint32_t number = 0;
  if (!size_class.warm.empty()) {
    number = size_class.warm.back();
    size_class.warm.pop_back();
    free_ -= slots_[number].touched_bytes;
  } else if (!size_class.cold.empty()) {
    number = size_class.cold.back();
    size_class.cold.pop_back();
  } else if (size_class.slot_count < layout.slot_limit) {
    number = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back({.offset = layout.base + size_class.slot_count * layout.slot_bytes,
                      .size_class = static_cast<std::uint32_t>(&size_class - classes_.data())});
    ++size_class.slot_count;
  } else {
    return std::nullopt;
  }
  return number;
}

bool ArenaWriter::charge(std::uint32_t slot, std::uint64_t size_bytes) {
  const std::uint64_t wanted = align_up(std::max<std::uint64_t>(size_bytes, 1), page_bytes());
  Slot& taken = slots_[slot];
  if (wanted <= taken.touched_bytes) {
    return true;
  }
  const std::uint64_t extra = wanted - taken.touched_bytes;
  if (!make_room(extra)) {
    return false;
  }
  taken.touched_bytes = wanted;
  touched_ += extra;
  return true;
}

bool ArenaWriter::make_room(std::uint64_t extra_bytes) {
  if (extra_bytes > options_.limit_bytes || touched_ - free_ > options_.limit_bytes - extra_bytes) {
    return false;  // giving back all free slots would not be enough
  }
  while (touched_ > options_.limit_bytes - extra_bytes) {
    if (!punch_longest_unused()) {
      return false;
    }
  }
  return true;
}

bool ArenaWriter::punch_longest_unused() {
  SizeClass* oldest = nullptr;
  for (SizeClass& size_class : classes_) {
    if (!size_class.warm.empty() &&
        (oldest == nullptr ||
         slots_[size_class.warm.front()].freed_at < slots_[oldest->warm.front()].freed_at)) {
      oldest = &size_class;
    }
  }
  if (oldest == nullptr) {
    return false;
  }
  const std::uint32_t number = oldest->warm.front();
  Slot& slot = slots_[number];
  if (!range_.memory->punch(range_.offset + slot.offset, slot.touched_bytes)) {
    return false;
  }
  touched_ -= slot.touched_bytes;
  free_ -= slot.touched_bytes;
  slot.touched_bytes = 0;
  oldest->warm.pop_front();
  oldest->cold.push_back(number);
  return true;
}

void ArenaWriter::give_back(std::uint32_t slot) {
  Slot& freed = slots_[slot];
  freed.state = SlotState::kFree;
  freed.freed_at = ++frees_;
  free_ += freed.touched_bytes;
  SizeClass& size_class = classes_[freed.size_class];
  if (freed.touched_bytes > 0) {
    size_class.warm.push_back(slot);
  } else {
    size_class.cold.push_back(slot);
  }
}

void ArenaWriter::take_return(ByteView unit) {
  SlotReference reference;
  if (unit.size() == sizeof(reference)) {
    std::memcpy(&reference, unit.data(), sizeof(reference));
  }
  if (unit.size() != sizeof(reference) || reference.slot >= slots_.size() ||
      slots_[reference.slot].state != SlotState::kHeld ||
      slots_[reference.slot].tag != reference.tag) {
    throw Error(ErrorCode::kInternal,
                fmt::format("the parent returned slot {} (publication {}), which it does not hold",
                            reference.slot, reference.tag));
  }
  --held_;
  held_bytes_ -= slots_[reference.slot].touched_bytes;
  give_back(reference.slot);
}

void ArenaWriter::collect() {
  if (reclaim_) {
    reclaim_();
  }
  for (;;) {
    const RingUnit unit = returned_->try_read();
    if (unit.status != RingStatus::kItem) {
      break;
    }
    take_return(unit.bytes);
    returned_->release();
  }
  while (free_ > options_.keep_free_bytes && punch_longest_unused()) {
  }
}

void ArenaWriter::wait_for_return(std::uint64_t size_bytes, const Wait& wait,
                                  Deadline& starved_at) {
  const Deadline now = std::chrono::steady_clock::now();
  if (now >= wait.deadline) {
    refuse(size_bytes, "nothing was returned before the deadline");
  }
  const bool starves = !consumer_waits_ || consumer_waits_();
  if (!starves) {
    starved_at = kNever;
  } else if (starved_at == kNever) {
    starved_at = deadline_after(options_.starvation_limit);
  } else if (now >= starved_at) {
    refuse(size_bytes, "the consumer waits for the next sample while it holds all earlier ones");
  }
  // This wait is short because two events do not end it: another thread of this process releases
  // a slot, or the consumer begins to wait.
  const Deadline until = std::min({wait.deadline, starved_at, deadline_after(kCheckPeriod)});
  const RingStatus status = returned_->read({until, wait.peer_gone}).status;
  waited_ += std::chrono::steady_clock::now() - now;
  switch (status) {
    case RingStatus::kItem:
    case RingStatus::kTimedOut:
      return;
    case RingStatus::kClosed:
      throw Error(ErrorCode::kCancelled, "the loader was closed");
    case RingStatus::kPeerDied:
      throw Error(ErrorCode::kCancelled, "the parent process is gone");
  }
}

void ArenaWriter::refuse(std::uint64_t size_bytes, const char* reason) const {
  std::string held = fmt::format("the consumer holds {} bytes in {} samples", held_bytes_, held_);
  if (held_ >= kMaxSlotsHeld) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("no room for a sample of {} bytes: {}, and {} is as many as a worker "
                            "can lend, however small they are; keep fewer samples alive, or copy "
                            "those you keep",
                            size_bytes, held, kMaxSlotsHeld));
  }
  throw Error(ErrorCode::kResourceExhausted,
              fmt::format("no room for a sample of {} bytes: {} (limit {} bytes; {}); keep fewer "
                          "samples alive, copy those you keep, or raise arena_limit_bytes{}",
                          size_bytes, reason, options_.limit_bytes, held,
                          options_.reserve_bytes == 0
                              ? ""
                              : fmt::format(" and the limit of address space (ulimit -v, -f), "
                                            "which leaves {} bytes for it",
                                            options_.reserve_bytes)));
}

// --- ArenaReader ---

/// One slot on loan. Links are guarded by the mutex of its Loans.
struct ArenaReader::Lease {
  Lease(std::shared_ptr<Loans> loans_in, const SlotReference& reference_in);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  const std::shared_ptr<Loans> loans;
  const SlotReference reference;
  Lease* next = nullptr;
  Lease** link = nullptr;  // what points to this lease
};

/// The live leases of one arena, which keep it alive. Returns their slots to the worker, or to the
/// system once the worker is gone.
struct ArenaReader::Loans {
  Loans(SharedRange range_in, std::unique_ptr<RingWriter> ring)
      : range(std::move(range_in)), returns(std::move(ring)) {}

  void add(Lease& lease) noexcept {
    const MutexLock lock(mutex);
    lease.next = first;
    lease.link = &first;
    if (first != nullptr) {
      first->link = &lease.next;
    }
    first = &lease;
  }

  void end(const Lease& lease) noexcept {
    if (!owner.is_current()) {
      return;  // the parent's copy returns the slot; besides, the mutex may be locked forever
    }
    const MutexLock lock(mutex);
    *lease.link = lease.next;
    if (lease.next != nullptr) {
      lease.next->link = lease.link;
    }
    if (returns == nullptr) {
      range.memory->release(bytes_of(lease));
      return;
    }
    try {
      // The ring has room for all slots outside the worker. If the worker is dead or damaged its
      // ring, nobody needs the slot.
      const RingSpace space = returns->try_begin(sizeof(lease.reference));
      if (space.status == RingStatus::kItem) {
        std::memcpy(space.bytes.data(), &lease.reference, sizeof(lease.reference));
        returns->commit();
      }
    } catch (const Error&) {
    }
  }

  void leave(bool worker_has_ended) {
    const MutexLock lock(mutex);
    if (first == nullptr) {
      return;  // all of the memory goes with its owner
    }
    std::vector<ByteRange> lent;
    for (const Lease* lease = first; lease != nullptr; lease = lease->next) {
      lent.push_back(bytes_of(*lease));
    }
    returns.reset();
    range.memory->keep_only(lent, worker_has_ended);
  }

  // Not analyzed: RingWriter::close() may be called by any thread at any time.
  void close() ENERGON_NO_THREAD_SAFETY_ANALYSIS { returns->close(); }

  // In the memory.
  ByteRange bytes_of(const Lease& lease) const {
    return {.offset = range.offset + lease.reference.offset, .size = lease.reference.size_bytes};
  }

  const OwnerProcess owner;
  const SharedRange range;
  Mutex mutex;  // makes many threads one producer
  Lease* first ENERGON_GUARDED_BY(mutex) = nullptr;
  // Null after leave().
  std::unique_ptr<RingWriter> returns ENERGON_GUARDED_BY(mutex);
};

ArenaReader::Lease::Lease(std::shared_ptr<Loans> loans_in, const SlotReference& reference_in)
    : loans(std::move(loans_in)), reference(reference_in) {
  loans->add(*this);
}

ArenaReader::Lease::~Lease() { loans->end(*this); }

ArenaReader::ArenaReader(SharedRange range, std::unique_ptr<RingWriter> returns)
    : loans_(std::make_shared<Loans>(std::move(range), std::move(returns))) {}

ArenaReader::~ArenaReader() = default;

SlotLease ArenaReader::lease(const SlotReference& reference) {
  loans_->owner.check("an arena");
  const SharedRange& range = loans_->range;
  if (reference.offset % page_bytes() != 0 || reference.offset > range.size ||
      reference.size_bytes > range.size - reference.offset) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("slot reference is damaged: [{}, +{}) is not a slot of an arena of {} "
                            "bytes; the worker wrote over its memory",
                            reference.offset, reference.size_bytes, range.size));
  }
  return {{range.data() + reference.offset, reference.size_bytes},
          std::make_shared<Lease>(loans_, reference)};
}

void ArenaReader::close() { loans_->close(); }

void ArenaReader::leave(bool worker_has_ended) { loans_->leave(worker_has_ended); }

}  // namespace energon
