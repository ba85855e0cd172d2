#include "energon/process/message_ring.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/process/fail_point.h"
#include "energon/process/os_error.h"
#include "io/error.h"

namespace energon {
namespace {

UniqueFd open_eventfd() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) {
    throw os_error("cannot make an eventfd", errno);
  }
  return fd;
}

}  // namespace

Doorbell::Doorbell() : fd_(open_eventfd()) {}

void Doorbell::ring() const noexcept {
  const std::uint64_t one = 1;
  // EAGAIN means that the counter is full of unseen rings: the waiter will wake anyway.
  while (::write(fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void Doorbell::clear() const noexcept {
  std::uint64_t count = 0;
  while (::read(fd_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

namespace {

// Checks of the header, and the poll, for both ends.

constexpr std::uint64_t kMinCapacity = 4096;
constexpr std::uint64_t kMaxCapacity = std::uint64_t{1} << 40;

/// Bytes that a unit takes in the ring, header and alignment included.
std::uint64_t unit_stride(std::uint64_t size_bytes) {
  return align_up(sizeof(UnitHeader) + size_bytes, kUnitAlignment);
}

/// Throws Error (kCorruptData): `field` has `value`, but must be in [low, high].
[[noreturn]] void throw_corrupt(const char* field, std::uint64_t value, std::uint64_t low,
                                std::uint64_t high) {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("shared ring is damaged: {} is {}, expected [{}, {}]; the other process "
                          "wrote over its memory",
                          field, value, low, high));
}

/// Decodes a `closed` word.
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

/// Checks the header of the ring in `range` and returns the capacity, which an end caches.
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

/// Waits on `doorbell`. Returns true if the peer is gone; otherwise the doorbell fired or the
/// deadline passed.
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

}  // namespace

std::uint64_t ring_footprint(std::uint64_t capacity_bytes) {
  return sizeof(RingHeader) + capacity_bytes;
}

void format_ring(const SharedRange& range, std::uint64_t capacity_bytes) {
  if (!std::has_single_bit(capacity_bytes) || capacity_bytes < kMinCapacity ||
      capacity_bytes > kMaxCapacity || range.size < ring_footprint(capacity_bytes)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("ring capacity {} must be a power of two from {} to {}, within {} "
                            "bytes of memory",
                            capacity_bytes, kMinCapacity, kMaxCapacity, range.size));
  }
  auto* header = new (range.data()) RingHeader{};
  header->magic = kRingMagic;
  header->version = kRingVersion;
  header->capacity_bytes = capacity_bytes;
}

// --- RingWriter ---

namespace {

// Queues of at least this many units are refilled once half empty; shorter ones immediately.
constexpr std::uint64_t kLongQueue = 16;

// Two units are always allowed, one to read and one to write. A limit of 0 weighs nothing.
bool is_full_with(std::uint64_t units, std::uint64_t weight, std::uint64_t max_units,
                  std::uint64_t max_weight) {
  return units >= max_units || (max_weight > 0 && units >= 2 && weight >= max_weight);
}

}  // namespace

RingWriter::RingWriter(SharedRange range, std::shared_ptr<const Doorbell> wake_reader,
                       std::shared_ptr<const Doorbell> doorbell, RingWriterOptions options)
    : range_(std::move(range)),
      header_(header_of(range_)),
      units_(range_.data() + sizeof(RingHeader)),
      capacity_(checked_capacity(range_)),
      wake_reader_(std::move(wake_reader)),
      doorbell_(std::move(doorbell)),
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

// Wakes late on purpose, so that a full queue does not cost a wake-up per unit.
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
  const bool peer_gone = !ready && poll_doorbell(*doorbell_, wait, timed_out);
  system_calls_ += ready ? 0 : 2;                             // with the clearing of the doorbell
  header_->writer_wants.store(0, std::memory_order_relaxed);  // awake: a ring too many is harmless
  if (!ready && !timed_out) {
    doorbell_->clear();
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
    throw Error(
        ErrorCode::kInternal,
        fmt::format("commit of {} bytes without a begin() of at least that many", size_bytes));
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
  doorbell_->ring();
}

bool RingWriter::reader_waits() const {
  // Relaxed: a hint; `head_` belongs to this thread.
  return header_->reader_sleeps.load(std::memory_order_relaxed) != 0 &&
         header_->released.load(std::memory_order_relaxed) ==
             header_->published.load(std::memory_order_relaxed);
}

// --- RingReader ---

namespace {

constexpr unsigned kMinSpins = 16;
constexpr unsigned kMaxSpins = 1024;

// Target number of units per nap.
constexpr std::uint64_t kUnitsPerNap = 8;
constexpr std::chrono::nanoseconds kShortestNap = std::chrono::microseconds(20);
constexpr std::chrono::nanoseconds kLongestNap = std::chrono::microseconds(200);

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

RingReader::RingReader(SharedRange range, std::shared_ptr<const Doorbell> wake_writer,
                       std::shared_ptr<const Doorbell> doorbell, RingReaderOptions options)
    : range_(std::move(range)),
      header_(header_of(range_)),
      units_(range_.data() + sizeof(RingHeader)),
      capacity_(checked_capacity(range_)),
      wake_writer_(std::move(wake_writer)),
      doorbell_(std::move(doorbell)),
      options_(options),
      spins_(kMaxSpins),
      nap_(kShortestNap) {}

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
    // Read before the cursor, so that units committed before the close are seen.
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

// Relaxed: only a hint that try_read() will find something.
bool RingReader::has_more() const {
  return header_->published.load(std::memory_order_relaxed) != cursor_;
}

bool RingReader::spin() {
  if (!options_.spins) {
    return false;
  }
  for (unsigned i = 0; i < spins_; ++i) {
    if (has_more()) {
      spins_ = std::min(kMaxSpins, spins_ * 2);
      naps_pay_ = options_.naps;
      return true;
    }
    pause_cpu();
  }
  spins_ = std::max(kMinSpins, spins_ / 2);
  return false;
}

// Rather than a spin while units are frequent: a reader that looks at each one as it is published
// slows the writer down, because they fight for its cache line.
bool RingReader::nap(const Wait& wait) {
  if (!naps_pay_ || wait.deadline == kNow) {
    return false;
  }
  const std::uint64_t units = sequence_ - napped_at_;
  nap_ = std::clamp(has_overslept_ || units > 2 * kUnitsPerNap ? nap_ / 2
                    : units < kUnitsPerNap                     ? nap_ * 2
                                                               : nap_,
                    kShortestNap, kLongestNap);
  napped_at_ = sequence_;
  std::this_thread::sleep_for(nap_);
  ++system_calls_;
  // A writer that waits has filled the queue meanwhile, which may hold few large units.
  has_overslept_ = header_->writer_wants.load(std::memory_order_relaxed) != 0;
  const bool is_too_long = has_overslept_ && nap_ == kShortestNap;
  naps_pay_ = has_more() && !is_too_long;
  return has_more();
}

// Returns true if the read should be retried.
bool RingReader::sleep(const Wait& wait, RingStatus& otherwise) {
  const auto begin = std::chrono::steady_clock::now();
  bool timed_out = false;
  const bool peer_gone = poll_doorbell(*doorbell_, wait, timed_out);
  finish_wait();
  system_calls_ += 2;
  otherwise = peer_gone ? RingStatus::kPeerDied : RingStatus::kTimedOut;
  const bool is_woken = !peer_gone && !timed_out;
  naps_pay_ = options_.naps && is_woken && std::chrono::steady_clock::now() - begin < kLongestNap;
  return is_woken;
}

RingUnit RingReader::read(const Wait& wait) {
  RingUnit unit = try_read();
  if (unit.status == RingStatus::kTimedOut && (nap(wait) || spin())) {
    unit = try_read();
  }
  RingStatus otherwise = RingStatus::kTimedOut;
  for (bool again = true; again && unit.status == RingStatus::kTimedOut;) {
    again = !prepare_wait() || sleep(wait, otherwise);
    unit = try_read();  // also after death: committed units are not lost
  }
  if (unit.status == RingStatus::kTimedOut) {
    unit.status = otherwise;
  }
  return unit;
}

bool RingReader::prepare_wait() {
  owner_.check("a shared ring");
  header_->reader_sleeps.store(1, std::memory_order_seq_cst);  // Note [Sleeping]
  if (try_read().status == RingStatus::kTimedOut) {
    return true;
  }
  header_->reader_sleeps.store(0, std::memory_order_relaxed);  // awake: a ring too many is harmless
  return false;
}

void RingReader::finish_wait() {
  header_->reader_sleeps.store(0, std::memory_order_relaxed);  // as above
  doorbell_->clear();
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
    ++system_calls_;
    wake_writer_->ring();
  }
}

void RingReader::close() {
  owner_.check("a shared ring");
  header_->reader_closed.store(kClosedMark,
                               std::memory_order_seq_cst);  // before the wake-up, Note [Sleeping]
  wake_writer_->ring();
  doorbell_->ring();
}

}  // namespace energon
