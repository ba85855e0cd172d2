#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "energon/process/message_ring.h"
#include "energon/process/ring_checks.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr unsigned kMinSpins = 16;
constexpr unsigned kMaxSpins = 1024;

// A nap should bring about as many units as this.
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
                       std::shared_ptr<const Doorbell> own, RingReaderOptions options)
    : range_(std::move(range)),
      header_(header_of(range_)),
      units_(range_.data() + sizeof(RingHeader)),
      capacity_(checked_capacity(range_)),
      wake_writer_(std::move(wake_writer)),
      own_(std::move(own)),
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

// True: to be tried again.
bool RingReader::sleep(const Wait& wait, RingStatus& otherwise) {
  const auto begin = std::chrono::steady_clock::now();
  bool timed_out = false;
  const bool peer_gone = poll_doorbell(*own_, wait, timed_out);
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
    unit = try_read();  // also after death: what was committed is not lost
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
    ++system_calls_;
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
