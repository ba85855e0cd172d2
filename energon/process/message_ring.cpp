#include "energon/process/message_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/process/fail_point.h"
#include "energon/process/ring_layout.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr std::uint64_t kMinCapacity = 4096;
constexpr std::uint64_t kMaxCapacity = std::uint64_t{1} << 40;
constexpr unsigned kMinSpins = 16;
constexpr unsigned kMaxSpins = 1024;

std::uint64_t unit_stride(std::uint64_t size_bytes) {
  return align_up(sizeof(UnitHeader) + size_bytes, kUnitAlignment);
}

[[noreturn]] void throw_corrupt(const char* field, std::uint64_t value, std::uint64_t low,
                                std::uint64_t high) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("shared ring is damaged: {} is {}, must be in [{}, {}]; the other process "
                  "wrote over its memory",
                  field, value, low, high));
}

bool is_closed(std::uint32_t word) {
  if (word != 0 && word != kClosedMark) {
    throw_corrupt("closed word", word, kClosedMark, kClosedMark);
  }
  return word != 0;
}

RingHeader* header_of(const SharedRange& range) {
  if (range.size < sizeof(RingHeader)) {
    throw_corrupt("size", range.size, sizeof(RingHeader), kMaxCapacity);
  }
  return reinterpret_cast<RingHeader*>(range.data());
}

/// Capacity of the ring in `range`; what both ends rely on from then on.
std::uint64_t checked_capacity(const SharedRange& range) {
  const RingHeader* header = header_of(range);
  if (header->magic != kRingMagic) {
    throw_corrupt("magic", header->magic, kRingMagic, kRingMagic);
  }
  if (header->version != kRingVersion) {
    throw_corrupt("version", header->version, kRingVersion, kRingVersion);
  }
  const std::uint64_t capacity = header->capacity_bytes;
  if (!std::has_single_bit(capacity) || capacity < kMinCapacity ||
      capacity > range.size - sizeof(RingHeader)) {
    throw_corrupt("capacity", capacity, kMinCapacity, range.size - sizeof(RingHeader));
  }
  return capacity;
}

/// True if the peer is gone; otherwise the doorbell fired or the deadline passed.
bool poll_doorbell(const Doorbell& doorbell, const Wait& wait, bool& timed_out) {
  std::vector<Waitable> waitables{{doorbell.fd()}};
  for (const int fd : wait.peer_gone) {
    waitables.push_back({fd});
  }
  timed_out = !wait_any(waitables, wait.deadline);
  for (std::size_t i = 1; i < waitables.size(); ++i) {
    if (waitables[i].ready) {
      return true;
    }
  }
  return false;
}

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

std::uint64_t ring_footprint(std::uint64_t capacity_bytes) {
  return sizeof(RingHeader) + capacity_bytes;
}

void format_ring(const SharedRange& range, std::uint64_t capacity_bytes) {
  if (!std::has_single_bit(capacity_bytes) || capacity_bytes < kMinCapacity ||
      capacity_bytes > kMaxCapacity || range.size < ring_footprint(capacity_bytes)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("ring capacity {} must be a power of two from {} to {}, within the {} "
                            "bytes given",
                            capacity_bytes, kMinCapacity, kMaxCapacity, range.size));
  }
  auto* header = new (range.data()) RingHeader{};
  header->magic = kRingMagic;
  header->version = kRingVersion;
  header->capacity_bytes = capacity_bytes;
}

// --- Writer ---

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
  while (!unit_ends_.empty() && unit_ends_.front() <= released_) {
    unit_ends_.pop_front();
  }
  return released;
}

RingSpace RingWriter::try_begin(std::uint64_t size_bytes) {
  owner_.check("a shared ring");
  begun_ = false;
  if (size_bytes > max_unit_bytes()) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("a message of {} bytes is larger than its ring allows ({} bytes, half "
                            "of {}); raise {} to at least {}",
                            size_bytes, max_unit_bytes(), capacity_, options_.capacity_option,
                            std::bit_ceil(2 * (size_bytes + sizeof(UnitHeader)))));
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
  if (released_ < wanted_ || (counts && unit_ends_.size() >= options_.max_units)) {
    load_released();
    if (counts && unit_ends_.size() >= options_.max_units) {
      wanted_ = std::max(wanted_, unit_ends_[unit_ends_.size() - options_.max_units]);
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

bool RingWriter::sleep(const Wait& wait, RingStatus& otherwise) {
  // Wait for an eighth of the ring, so that a full ring does not cost a wake-up per unit.
  const std::uint64_t batch =
      options_.max_units > 0 ? 0 : head_ - std::min(head_, capacity_ / 8 * 7);
  const std::uint64_t wanted = std::max(wanted_, batch);
  header_->writer_wants.store(wanted, std::memory_order_seq_cst);  // Note [Sleeping]
  const bool ready = load_released() >= wanted || closed();
  bool timed_out = false;
  const bool peer_gone = !ready && poll_doorbell(*own_, wait, timed_out);
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
    again = sleep(wait, otherwise);
    space = try_begin(size_bytes);
  }
  if (space.status == RingStatus::kTimedOut) {
    space.status = otherwise;
  }
  return space;
}

void RingWriter::commit() { commit(begun_size_); }

void RingWriter::commit(std::uint64_t size_bytes) {
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
    unit_ends_.push_back(head_);
  }
  ENERGON_FAIL_POINT("ring.before_publish");
  // Release: the unit is whole before it is visible. seq_cst: Note [Sleeping].
  header_->published.store(head_, std::memory_order_seq_cst);
  ENERGON_FAIL_POINT("ring.after_publish");
  if (header_->reader_sleeps.load(std::memory_order_seq_cst) != 0 &&         // Note [Sleeping]
      header_->reader_sleeps.exchange(0, std::memory_order_relaxed) != 0) {  // ring once per sleep
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

// --- Reader ---

RingReader::RingReader(SharedRange range, std::shared_ptr<const Doorbell> wake_writer,
                       std::shared_ptr<const Doorbell> own)
    : range_(std::move(range)),
      header_(header_of(range_)),
      units_(range_.data() + sizeof(RingHeader)),
      capacity_(checked_capacity(range_)),
      wake_writer_(std::move(wake_writer)),
      own_(std::move(own)),
      spins_(kMaxSpins) {}

std::uint64_t RingReader::load_published() {
  // Acquire: units before it are whole. seq_cst: see Note [Sleeping].
  const std::uint64_t published = header_->published.load(std::memory_order_seq_cst);
  if (published < published_ || published - cursor_ > capacity_ ||
      published % kUnitAlignment != 0) {
    throw_corrupt("publish cursor", published, published_, cursor_ + capacity_);
  }
  published_ = published;
  return published;
}

UnitHeader RingReader::read_header(std::uint64_t cursor) const {
  UnitHeader header;
  std::memcpy(&header, units_ + (cursor & (capacity_ - 1)), sizeof(header));
  if (header.sequence != static_cast<std::uint32_t>(sequence_)) {
    throw_corrupt("unit sequence", header.sequence, sequence_, sequence_);
  }
  return header;
}

RingUnit RingReader::try_read() {
  owner_.check("a shared ring");
  if (is_closed(header_->reader_closed.load(std::memory_order_acquire))) {  // by another thread
    return {RingStatus::kClosed};
  }
  if (held_) {
    return {RingStatus::kItem, held_bytes_, sequence_};
  }
  if (cursor_ == published_) {
    // Before the cursor: what was committed before the close is then seen.
    const bool closed = is_closed(header_->writer_closed.load(std::memory_order_seq_cst));
    if (cursor_ == load_published()) {
      return {closed ? RingStatus::kClosed : RingStatus::kTimedOut};
    }
  }
  std::uint64_t start = cursor_;
  UnitHeader header = read_header(start);
  if (header.magic == kPaddingMagic) {
    const std::uint64_t to_end = capacity_ - (start & (capacity_ - 1));
    if (header.size_bytes != to_end - sizeof(UnitHeader) || to_end >= published_ - start) {
      throw_corrupt("padding size", header.size_bytes, to_end - sizeof(UnitHeader),
                    to_end - sizeof(UnitHeader));
    }
    start += to_end;
    header = read_header(start);
  }
  if (header.magic != kUnitMagic) {
    throw_corrupt("unit magic", header.magic, kUnitMagic, kUnitMagic);
  }
  const std::uint64_t available =
      std::min(published_ - start, capacity_ - (start & (capacity_ - 1))) - sizeof(UnitHeader);
  if (header.size_bytes > available) {
    throw_corrupt("unit size", header.size_bytes, 0, available);
  }
  held_ = true;
  held_stride_ = start - cursor_ + unit_stride(header.size_bytes);
  held_bytes_ = {units_ + (start & (capacity_ - 1)) + sizeof(UnitHeader), header.size_bytes};
  return {RingStatus::kItem, held_bytes_, sequence_};
}

bool RingReader::spin() {
  for (unsigned i = 0; i < spins_; ++i) {
    // Relaxed: only a hint that try_read() will find something.
    if (header_->published.load(std::memory_order_relaxed) != cursor_) {
      spins_ = std::min(kMaxSpins, spins_ * 2);
      return true;
    }
    pause_cpu();
  }
  spins_ = std::max(kMinSpins, spins_ / 2);
  return false;
}

RingUnit RingReader::read(const Wait& wait) {
  RingUnit unit = try_read();
  if (unit.status == RingStatus::kTimedOut && spin()) {
    unit = try_read();
  }
  RingStatus otherwise = RingStatus::kTimedOut;
  for (bool again = true; again && unit.status == RingStatus::kTimedOut;) {
    if (prepare_wait()) {
      bool timed_out = false;
      const bool peer_gone = poll_doorbell(*own_, wait, timed_out);
      again = !peer_gone && !timed_out;
      otherwise = peer_gone ? RingStatus::kPeerDied : RingStatus::kTimedOut;
      finish_wait();
    }
    unit = try_read();  // also after death: what was committed is not lost
  }
  if (unit.status == RingStatus::kTimedOut) {
    unit.status = otherwise;
  }
  return unit;
}

bool RingReader::prepare_wait() {
  header_->reader_sleeps.store(1, std::memory_order_seq_cst);  // Note [Sleeping]
  if (try_read().status == RingStatus::kTimedOut) {
    return true;
  }
  header_->reader_sleeps.store(0, std::memory_order_relaxed);  // awake: a ring too many is harmless
  return false;
}

void RingReader::finish_wait() {
  header_->reader_sleeps.store(0, std::memory_order_relaxed);  // as above
  own_->clear();
}

void RingReader::release() {
  owner_.check("a shared ring");
  if (!held_) {
    throw Error(ErrorCode::kInternal, "release without a unit read");
  }
  cursor_ += held_stride_;
  ++sequence_;
  held_ = false;
  // Release: the reads are done before the bytes are reused. seq_cst: Note [Sleeping].
  header_->released.store(cursor_, std::memory_order_seq_cst);
  const std::uint64_t wanted = header_->writer_wants.load(std::memory_order_seq_cst);  // as above
  if (wanted != 0 && cursor_ >= wanted &&
      header_->writer_wants.exchange(0, std::memory_order_relaxed) != 0) {  // ring once per sleep
    wake_writer_->ring();
  }
}

void RingReader::close() {
  owner_.check("a shared ring");
  header_->reader_closed.store(kClosedMark,
                               std::memory_order_seq_cst);  // before the wake-up, Note [Sleeping]
  wake_writer_->ring();
  own_->ring();
}

}  // namespace energon
