#include "energon/process/arena.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "energon/process/fail_point.h"
#include "io/error.h"

namespace energon {
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
    throw Error(ErrorCode::kInternal, "resize of an arena slot that is empty or published");
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
    throw Error(ErrorCode::kInternal, "publish of an arena slot that is empty or published");
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
                fmt::format("an arena of limit {} needs {} bytes of address space, not {}",
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
    refuse(size_bytes, "nothing came back before the deadline");
  }
  const bool starves = !consumer_waits_ || consumer_waits_();
  if (!starves) {
    starved_at = kNever;
  } else if (starved_at == kNever) {
    starved_at = deadline_after(options_.starvation_limit);
  } else if (now >= starved_at) {
    refuse(size_bytes, "the consumer waits for the next sample while it holds all earlier ones");
  }
  // Two events do not end this wait, so it is short: another thread of this process releases a
  // slot, or the consumer begins to wait.
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
                          "samples alive, copy those you keep, or raise arena_limit_bytes "
                          "(--arena-limit-mib){}",
                          size_bytes, reason, options_.limit_bytes, held,
                          options_.reserve_bytes == 0
                              ? ""
                              : fmt::format(" and the limit of address space (ulimit -v, -f), "
                                            "which leaves {} bytes for it",
                                            options_.reserve_bytes)));
}

}  // namespace energon
