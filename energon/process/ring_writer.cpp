#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "energon/process/fail_point.h"
#include "energon/process/message_ring.h"
#include "energon/process/ring_checks.h"
#include "io/error.h"

namespace energon {
namespace {

// A full queue of this many units or more is refilled once it is half empty; a shorter one at once.
constexpr std::uint64_t kLongQueue = 16;

// Two units are always allowed, one to read and one to write. A limit of 0 weighs nothing.
bool is_full_with(std::uint64_t units, std::uint64_t weight, std::uint64_t max_units,
                  std::uint64_t max_weight) {
  return units >= max_units || (max_weight > 0 && units >= 2 && weight >= max_weight);
}

}  // namespace

RingWriter::RingWriter(SharedRange range, std::shared_ptr<const Doorbell> wake_reader,
                       std::shared_ptr<const Doorbell> own, RingWriterOptions options)
    : range_(std::move(range)),
      header_(header_of(range_)),
      units_(range_.data() + sizeof(RingHeader)),
      capacity_(checked_capacity(range_)),
      wake_reader_(std::move(wake_reader)),
      own_(std::move(own)),
      options_(std::move(options)) {}

std::uint64_t RingWriter::max_unit_bytes() const { return capacity_ / 2 - sizeof(UnitHeader); }

bool RingWriter::closed() const {
  // Acquire: what came before the close. The second may be set by another thread of this side.
  return is_closed(header_->reader_closed.load(std::memory_order_acquire)) ||
         is_closed(header_->writer_closed.load(std::memory_order_acquire));
}

std::uint64_t RingWriter::load_released() {
  // Acquire: the reader is done with the bytes before it. seq_cst: see Note [Sleeping].
  const std::uint64_t released = header_->released.load(std::memory_order_seq_cst);
  if (released < released_ || released > head_) {
    throw_corrupt("release cursor", released, released_, head_);
  }
  released_ = released;
  while (!unreleased_.empty() && unreleased_.front().end <= released_) {
    unreleased_weight_ -= unreleased_.front().weight;
    unreleased_.pop_front();
  }
  return released;
}

bool RingWriter::is_full() const {
  return is_full_with(unreleased_.size(), unreleased_weight_, options_.max_units,
                      options_.max_weight);
}

// The `released` cursor from which on the queue has room within these limits.
std::uint64_t RingWriter::cursor_with_room(std::uint64_t max_units,
                                           std::uint64_t max_weight) const {
  std::uint64_t units = unreleased_.size();
  std::uint64_t weight = unreleased_weight_;
  std::uint64_t cursor = released_;
  for (const Unreleased& unit : unreleased_) {
    if (!is_full_with(units, weight, max_units, max_weight)) {
      break;
    }
    --units;
    weight -= unit.weight;
    cursor = unit.end;
  }
  return cursor;
}

// Later than needed, so that a full queue does not cost a wake-up per unit.
std::uint64_t RingWriter::cursor_to_sleep_for() const {
  if (options_.max_units == 0) {
    return head_ - std::min(head_, capacity_ / 8 * 7);  // an eighth of the ring
  }
  return unreleased_.size() < kLongQueue
             ? wanted_
             : cursor_with_room(options_.max_units / 2, options_.max_weight / 2);
}

RingSpace RingWriter::try_begin(std::uint64_t size_bytes) {
  owner_.check("a shared ring");
  begun_ = false;
  if (size_bytes > max_unit_bytes()) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("a message of {} bytes is larger than its ring allows ({} bytes, half "
                            "of {}); {}",
                            size_bytes, max_unit_bytes(), capacity_, options_.remedy));
  }
  if (closed()) {
    return {RingStatus::kClosed};
  }
  const std::uint64_t stride = unit_stride(size_bytes);
  const std::uint64_t position = head_ & (capacity_ - 1);
  const std::uint64_t to_end = capacity_ - position;
  const std::uint64_t padding = stride > to_end ? to_end : 0;
  const std::uint64_t end = head_ + padding + stride;
  wanted_ = end > capacity_ ? end - capacity_ : 0;
  const bool counts = options_.max_units > 0;
  if (released_ < wanted_ || (counts && is_full())) {
    load_released();
    if (counts) {
      wanted_ = std::max(wanted_, cursor_with_room(options_.max_units, options_.max_weight));
    }
    if (released_ < wanted_) {
      return {RingStatus::kTimedOut};
    }
  }
  begun_ = true;
  begun_size_ = size_bytes;
  begun_padding_ = padding;
  const std::uint64_t start = padding > 0 ? 0 : position;
  return {RingStatus::kItem, {units_ + start + sizeof(UnitHeader), size_bytes}};
}

bool RingWriter::sleep(const Wait& wait, std::uint64_t wanted, RingStatus& otherwise) {
  header_->writer_wants.store(wanted, std::memory_order_seq_cst);  // Note [Sleeping]
  const bool ready = load_released() >= wanted || closed();
  bool timed_out = false;
  const bool peer_gone = !ready && poll_doorbell(*own_, wait, timed_out);
  system_calls_ += ready ? 0 : 2;                             // with the clearing of the doorbell
  header_->writer_wants.store(0, std::memory_order_relaxed);  // awake: a ring too many is harmless
  if (!ready && !timed_out) {
    own_->clear();
  }
  otherwise = peer_gone ? RingStatus::kPeerDied : RingStatus::kTimedOut;
  return !peer_gone && !timed_out;
}

RingSpace RingWriter::begin(std::uint64_t size_bytes, const Wait& wait) {
  RingSpace space = try_begin(size_bytes);
  RingStatus otherwise = RingStatus::kTimedOut;
  for (bool again = true; again && space.status == RingStatus::kTimedOut;) {
    ENERGON_FAIL_POINT("waiting.for_space");
    again = sleep(wait, std::max(wanted_, cursor_to_sleep_for()), otherwise);
    space = try_begin(size_bytes);
  }
  if (space.status == RingStatus::kTimedOut) {
    space.status = otherwise;
  }
  return space;
}

RingStatus RingWriter::wait_released(std::uint64_t count, const Wait& wait) {
  owner_.check("a shared ring");
  RingStatus otherwise = RingStatus::kTimedOut;
  for (bool again = true; units_released() < count;) {
    if (closed()) {
      return RingStatus::kClosed;
    }
    if (!again) {
      return otherwise;
    }
    ENERGON_FAIL_POINT("waiting.for_space");
    const std::uint64_t wanted = unreleased_.at(count - (sequence_ - unreleased_.size()) - 1).end;
    again = sleep(wait, wanted, otherwise);
  }
  return RingStatus::kItem;
}

std::uint64_t RingWriter::units_released() {
  load_released();
  return sequence_ - unreleased_.size();
}

void RingWriter::commit() { commit(begun_size_); }

void RingWriter::commit(std::uint64_t size_bytes, std::uint64_t weight) {
  owner_.check("a shared ring");
  if (!begun_ || size_bytes > begun_size_) {
    throw Error(ErrorCode::kInternal,
                fmt::format("commit of {} bytes without a begin of as many", size_bytes));
  }
  const auto sequence = static_cast<std::uint32_t>(sequence_);
  std::uint64_t start = head_;
  if (begun_padding_ > 0) {
    const UnitHeader padding{kPaddingMagic, sequence, begun_padding_ - sizeof(UnitHeader)};
    std::memcpy(units_ + (start & (capacity_ - 1)), &padding, sizeof(padding));
    start += begun_padding_;
  }
  const UnitHeader header{kUnitMagic, sequence, size_bytes};
  std::memcpy(units_ + (start & (capacity_ - 1)), &header, sizeof(header));
  head_ = start + unit_stride(size_bytes);
  ++sequence_;
  begun_ = false;
  if (options_.max_units > 0) {
    unreleased_.push_back({head_, weight});
    unreleased_weight_ += weight;
  }
  ENERGON_FAIL_POINT("ring.before_publish");
  // Release: the unit is whole before it is visible. seq_cst: Note [Sleeping].
  header_->published.store(head_, std::memory_order_seq_cst);
  ENERGON_FAIL_POINT("ring.after_publish");
  if (header_->reader_sleeps.load(std::memory_order_seq_cst) != 0 &&         // Note [Sleeping]
      header_->reader_sleeps.exchange(0, std::memory_order_relaxed) != 0) {  // ring once per sleep
    ++system_calls_;
    wake_reader_->ring();
  }
}

void RingWriter::close() {
  owner_.check("a shared ring");
  header_->writer_closed.store(kClosedMark,
                               std::memory_order_seq_cst);  // before the wake-up, Note [Sleeping]
  wake_reader_->ring();
  own_->ring();
}

bool RingWriter::reader_waits() const {
  // Relaxed: a hint; `head_` is of this thread.
  return header_->reader_sleeps.load(std::memory_order_relaxed) != 0 &&
         header_->released.load(std::memory_order_relaxed) ==
             header_->published.load(std::memory_order_relaxed);
}

}  // namespace energon
