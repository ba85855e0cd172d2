// A ring of variable-size units in shared memory, from one writer to one reader.
//
//   writer:  begin(size) -> write -> commit | abort          reader:  read -> use -> release
//
//                    begin                 commit
//     kIdle ───────────────────> kBegun ───────────────> kIdle      (writer)
//                                  └──────── abort ───────┘
//                    read (kItem)          release
//     kIdle ───────────────────> kHeld ────────────────> kIdle      (reader)
//
// A unit is invisible until its commit, which is a single store. An aborted unit leaves no trace.
// There is no lock: a side that is killed at any instant leaves the ring as if it had stopped
// before or after its last store. The reader copies, bounds-checks and validates every header that
// it takes from shared memory before use. A damaged ring is an Error (kCorruptData), on every later
// call too.
//
// Note [Sleeping]: a side that cannot proceed stores its flag (`reader_sleeps`, `writer_wants`),
// reads the other side's cursor once more, and polls its doorbell. The other side stores its
// cursor, then reads the flag, and rings only if it is set. All four accesses are sequentially
// consistent, so at least one side sees the other's store: no wake-up is lost, and in steady state
// there is no system call. If a side dies between the store and the ring, its pidfd fires; the ring
// is then read once more before the peer is reported dead.
//
// Layout: docs/formats/shared_memory.md.

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "energon/process/shared_memory.h"
#include "energon/process/wait.h"
#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/file.h"

namespace energon {

// Layout of a message ring in shared memory: docs/formats/shared_memory.md, "Ring".
//
// Not a stable format: both sides are the same build. Contains no pointers.

inline constexpr std::uint64_t kRingMagic = 0x31474E49524E4745;  // "EGNRING1"
inline constexpr std::uint32_t kRingVersion = 1;
inline constexpr std::uint64_t kUnitAlignment = 16;
inline constexpr std::uint32_t kUnitMagic = 0x54494E55;     // "UNIT"
inline constexpr std::uint32_t kPaddingMagic = 0x44444150;  // "PADD"

/// The value of a `closed` word after closing; 0 before. Any other value means damage.
inline constexpr std::uint32_t kClosedMark = 0x534F4C43;  // "CLOS"

/// Cursors are absolute: bytes since the ring was made, never wrapped. The words of each side are
/// in separate cache lines, because each side writes them for every unit.
struct RingHeader {
  alignas(64) std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t capacity_bytes;  // a power of two

  alignas(64) std::atomic<std::uint64_t> published;  // writer: end of the last committed unit
  std::atomic<std::uint32_t> writer_closed;

  alignas(64) std::atomic<std::uint64_t> released;  // reader: end of the last released unit
  std::atomic<std::uint32_t> reader_closed;

  alignas(64) std::atomic<std::uint32_t> reader_sleeps;  // reader sets, either side clears

  alignas(
      64) std::atomic<std::uint64_t> writer_wants;  // `released` the sleeping writer needs; or 0
};

/// Precedes each unit. A padding unit fills the bytes up to the end of the ring.
struct UnitHeader {
  std::uint32_t magic;     // kUnitMagic or kPaddingMagic
  std::uint32_t sequence;  // low bits of the number of units before this one
  std::uint64_t size_bytes;
};

static_assert(sizeof(RingHeader) == 320 && alignof(RingHeader) == 64);
static_assert(offsetof(RingHeader, published) == 64 && offsetof(RingHeader, released) == 128);
static_assert(offsetof(RingHeader, reader_sleeps) == 192);
static_assert(offsetof(RingHeader, writer_wants) == 256);
static_assert(sizeof(UnitHeader) == kUnitAlignment);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// A wake-up that survives the death of either side: an eventfd.
//
// A doorbell carries no information. A waiting side sets its flag in the shared ring, checks the
// ring once more, and only then polls. A publishing side rings only if that flag is set. One
// doorbell belongs to one waiting thread and may serve several rings.

/// Thread-safe.
class Doorbell {
 public:
  /// Throws Error (kResourceExhausted) if no descriptor is left.
  Doorbell();
  /// Takes ownership of an eventfd, such as one received over a socket.
  explicit Doorbell(UniqueFd fd) : fd_(std::move(fd)) {}

  /// Wakes the thread that polls fd(), now or at its next poll. Never blocks.
  void ring() const noexcept;
  /// Clears all rings so far.
  void clear() const noexcept;

  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

/// The result of a call on a ring.
enum class RingStatus : std::uint8_t {
  kItem,      ///< a unit (reader), or room for one (writer)
  kTimedOut,  ///< the deadline passed
  kClosed,    ///< reader: the ring is closed and all units were read; writer: the reader closed
  kPeerDied,  ///< a descriptor of Wait::peer_gone fired, and the ring is empty
};

/// Room for one unit. The writer may use it until commit() or abort().
struct RingSpace {
  RingStatus status = RingStatus::kTimedOut;
  std::span<std::byte> bytes = {};  ///< aligned to 16, only for kItem
};

/// One unit. The reader may use it until release(). `bytes` is in shared memory, where a faulty
/// peer may still change it: copy data before you validate it, and use the copy.
struct RingUnit {
  RingStatus status = RingStatus::kTimedOut;
  ByteView bytes = {};         ///< aligned to 16, only for kItem
  std::uint64_t sequence = 0;  ///< number of units before this one
};

/// Bytes of shared memory for a ring with `capacity_bytes` (a power of two, at least 4096).
std::uint64_t ring_footprint(std::uint64_t capacity_bytes);

/// Writes the header of an empty ring. The process that made the memory calls it before any
/// endpoint exists. Throws Error (kInvalidArgument) for a wrong capacity or a range smaller than
/// ring_footprint().
void format_ring(const SharedRange& range, std::uint64_t capacity_bytes);

struct RingWriterOptions {
  /// Maximum number of unreleased units: the depth of the queue. 0: limited only by bytes. A writer
  /// that finds a queue of 16 or more units full sleeps until it is half empty.
  std::uint64_t max_units = 0;

  /// The queue is also full with two or more unreleased units that together weigh this much
  /// (commit()). 0: no limit. Needs `max_units`.
  std::uint64_t max_weight = 0;

  /// The advice in the error about a message that is too large.
  std::string remedy = "use a larger ring";
};

/// The writing end; one per ring. Not thread-safe, except close() and reader_waits(). In a forked
/// child of the process that made it, try_begin(), begin(), commit() and close() throw Error
/// (kCancelled).
class RingWriter {
 public:
  /// The reader polls `wake_reader`; this side polls `doorbell`. Throws Error (kCorruptData) if
  /// `range` holds no ring.
  RingWriter(SharedRange range, std::shared_ptr<const Doorbell> wake_reader,
             std::shared_ptr<const Doorbell> doorbell, RingWriterOptions options = {});
  /// Drops a begun unit. Does not close the ring.
  ~RingWriter() = default;
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  /// Reserves room for a unit of `size_bytes`. Returns kItem; kTimedOut immediately if the ring is
  /// full; or kClosed. A second begin() replaces the first. Throws Error: kResourceExhausted if the
  /// unit is larger than max_unit_bytes(), so that waiting would not help; kCorruptData if the ring
  /// is damaged.
  RingSpace try_begin(std::uint64_t size_bytes);

  /// Like try_begin(), but waits for room.
  RingSpace begin(std::uint64_t size_bytes, const Wait& wait);

  /// Publishes the begun unit, or its first `size_bytes`, and wakes the reader if it sleeps.
  /// `weight` counts against RingWriterOptions::max_weight. Requires: a unit was begun, and
  /// `size_bytes` is not larger than its size. Throws Error (kInternal) otherwise.
  void commit();
  void commit(std::uint64_t size_bytes, std::uint64_t weight = 0);

  /// Drops the begun unit, if any.
  void abort() noexcept { begun_ = false; }

  /// Ends the stream of units: the reader gets kClosed after the last one. A begin() that waits in
  /// another thread returns kClosed. Idempotent.
  void close();

  /// Whether the reader has released all units and sleeps until the next one.
  bool reader_waits() const;

  /// Waits until the reader has released the first `count` units. Returns kItem; kTimedOut,
  /// kClosed or kPeerDied. A begun unit stays begun. Requires: RingWriterOptions::max_units, and
  /// `count` units were committed.
  RingStatus wait_released(std::uint64_t count, const Wait& wait);

  std::uint64_t max_unit_bytes() const;
  std::uint64_t units_committed() const { return sequence_; }
  /// Number of units that the reader has released. Requires: RingWriterOptions::max_units.
  std::uint64_t units_released();
  /// System calls made so far to sleep and to wake the reader.
  std::uint64_t system_calls() const { return system_calls_; }

 private:
  /// A committed unit that was not released when load_released() last looked.
  struct Unreleased {
    std::uint64_t end;  // cursor
    std::uint64_t weight;
  };

  bool closed() const;
  std::uint64_t load_released();
  bool is_full() const;
  std::uint64_t cursor_with_room(std::uint64_t max_units, std::uint64_t max_weight) const;
  std::uint64_t cursor_to_sleep_for() const;
  bool sleep(const Wait& wait, std::uint64_t wanted, RingStatus& otherwise);

  const SharedRange range_;
  RingHeader* const header_;
  std::byte* const units_;
  const std::uint64_t capacity_;
  const std::shared_ptr<const Doorbell> wake_reader_;
  const std::shared_ptr<const Doorbell> doorbell_;
  const RingWriterOptions options_;
  const OwnerProcess owner_;

  // The authoritative values; shared memory only gets copies.
  std::uint64_t head_ = 0;      // end of the last committed unit
  std::uint64_t released_ = 0;  // last valid value read
  std::uint64_t sequence_ = 0;
  std::deque<Unreleased> unreleased_;  // oldest first; only if max_units is set
  std::uint64_t unreleased_weight_ = 0;
  std::uint64_t system_calls_ = 0;
  std::uint64_t wanted_ = 0;  // `released` at which the last refused begin() has room
  bool begun_ = false;
  std::uint64_t begun_size_ = 0;
  std::uint64_t begun_padding_ = 0;
};

struct RingReaderOptions {
  /// Whether read() spins for some microseconds before it sleeps. Pays while a core is free for it.
  bool spins = true;

  /// Whether read() naps for up to 0.2 ms while units arrive faster than that. A nap is one system
  /// call, and none of the writer, for all units that come meanwhile; a sleep costs both sides four
  /// for one unit.
  bool naps = false;
};

/// The reading end; one per ring. Not thread-safe, except close(). In a forked child of the process
/// that made it, try_read(), read(), release(), prepare_wait() and close() throw Error
/// (kCancelled).
class RingReader {
 public:
  /// The writer polls `wake_writer`; this side polls `doorbell`. Throws Error (kCorruptData) if
  /// `range` holds no ring.
  RingReader(SharedRange range, std::shared_ptr<const Doorbell> wake_writer,
             std::shared_ptr<const Doorbell> doorbell, RingReaderOptions options = {});
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  /// Returns the next unit, validated; the same unit until release(). Returns kTimedOut immediately
  /// if there is none. Throws Error (kCorruptData) if the ring is damaged.
  RingUnit try_read();

  /// Like try_read(), but waits for a unit. An available unit is returned even if the deadline has
  /// passed or the peer is dead.
  RingUnit read(const Wait& wait);

  /// Gives the unit back to the writer. Its bytes must not be used afterwards. Requires: a unit was
  /// read. Throws Error (kInternal) otherwise.
  void release();

  /// Stops reading: the writer gets kClosed. A read() that waits in another thread, and each later
  /// one, returns kClosed. Idempotent.
  void close();

  /// For callers that poll several rings themselves. prepare_wait() returns false if try_read()
  /// would not return kTimedOut. If it returns true, poll doorbell_fd() together with the other
  /// descriptors, then call finish_wait() whatever the poll returned.
  bool prepare_wait();
  void finish_wait();
  int doorbell_fd() const { return doorbell_->fd(); }

  std::uint64_t units_released() const { return sequence_; }
  /// System calls made so far to nap, to sleep and to wake the writer. Those of a caller of
  /// prepare_wait() are not known.
  std::uint64_t system_calls() const { return system_calls_; }

 private:
  std::uint64_t load_published();
  UnitHeader read_header(std::uint64_t cursor) const;
  bool has_more() const;
  bool spin();
  bool nap(const Wait& wait);
  bool sleep(const Wait& wait, RingStatus& otherwise);

  const SharedRange range_;
  RingHeader* const header_;
  const std::byte* const units_;
  const std::uint64_t capacity_;
  const std::shared_ptr<const Doorbell> wake_writer_;
  const std::shared_ptr<const Doorbell> doorbell_;
  const RingReaderOptions options_;
  const OwnerProcess owner_;

  // The authoritative values, as in the writer.
  std::uint64_t cursor_ = 0;     // end of the last released unit, past any padding read
  std::uint64_t published_ = 0;  // last valid value read
  std::uint64_t sequence_ = 0;
  bool held_ = false;
  std::uint64_t held_stride_ = 0;
  ByteView held_bytes_;
  unsigned spins_ = 0;  // how long to spin before sleeping; grows while spinning succeeds

  // Naps are taken while units arrive faster than they pay for a sleep.
  bool naps_pay_ = false;
  std::chrono::nanoseconds nap_{0};
  std::uint64_t napped_at_ = 0;  // sequence_ at the last nap
  bool has_overslept_ = false;   // in the last nap
  std::uint64_t system_calls_ = 0;
};

}  // namespace energon
