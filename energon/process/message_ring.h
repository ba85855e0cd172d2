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
// A unit is invisible until its commit, which is one store; an aborted one leaves no trace. There
// is no lock: a side that is killed at any instant leaves the ring as if it had stopped before or
// after its last store. What the reader takes from shared memory is copied, bounds-checked and
// validated before use; a scribbled ring is an Error (kCorruptData), again at each later call.
//
// Note [Sleeping]: a side that finds nothing to do stores its flag (`reader_sleeps`,
// `writer_wants`), reads the other side's cursor once more, and polls its doorbell. The other side
// stores its cursor, then reads the flag, and rings only if it is set. All four accesses are
// sequentially consistent, so at least one side sees the other's store: no wake-up is lost, and in
// steady state there is no system call. A side that dies between store and ring is covered by its
// pidfd: when it fires, the ring is read once more before the peer is reported dead.
//
// Bytes: docs/formats/shared_memory.md.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>

#include "energon/process/doorbell.h"
#include "energon/process/owner_process.h"
#include "energon/process/shared_memory.h"
#include "energon/process/wait.h"
#include "io/bytes.h"

namespace energon {

struct RingHeader;
struct UnitHeader;

/// How a call on a ring ended.
enum class RingStatus : std::uint8_t {
  kItem,      ///< a unit (reader), or room for one (writer)
  kTimedOut,  ///< the deadline passed
  kClosed,    ///< reader: closed and everything committed was read; writer: the reader closed
  kPeerDied,  ///< a descriptor of Wait::peer_gone fired, and the ring has nothing more
};

/// Room for one unit, in the writer's hands until commit() or abort().
struct RingSpace {
  RingStatus status = RingStatus::kTimedOut;
  std::span<std::byte> bytes = {};  ///< aligned to 16; empty unless kItem
};

/// One unit, in the reader's hands until release(). `bytes` lies in shared memory, where a faulty
/// peer may still change it: copy what you validate, then use the copy.
struct RingUnit {
  RingStatus status = RingStatus::kTimedOut;
  ByteView bytes = {};         ///< aligned to 16; empty unless kItem
  std::uint64_t sequence = 0;  ///< units before this one
};

/// Bytes of shared memory for a ring of `capacity_bytes` (a power of two, at least 4096).
std::uint64_t ring_footprint(std::uint64_t capacity_bytes);

/// Writes the header of an empty ring. By whoever made the memory, before any endpoint exists.
/// Throws Error (kInvalidArgument) for a wrong capacity or a range smaller than ring_footprint().
void format_ring(const SharedRange& range, std::uint64_t capacity_bytes);

struct RingWriterOptions {
  /// At most this many units are unreleased at any time: the depth of a queue. 0: only bytes count.
  std::uint64_t max_units = 0;

  /// What the error says to do about a message that is too large.
  std::string remedy = "use a larger ring";
};

/// The writing end. One per ring. Not thread-safe, except close() and reader_waits(). Every
/// function throws Error (kCancelled) in a forked child of the process that made it.
class RingWriter {
 public:
  /// `wake_reader` is what the reader polls, `own` what this side polls. Throws Error
  /// (kCorruptData) if `range` holds no ring.
  RingWriter(SharedRange range, std::shared_ptr<const Doorbell> wake_reader,
             std::shared_ptr<const Doorbell> own, RingWriterOptions options = {});
  /// Drops a unit that was begun. Does not close.
  ~RingWriter() = default;
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  /// Room for a unit of `size_bytes`: kItem; or kTimedOut at once if the ring is full; or kClosed.
  /// A second begin() replaces the first. Throws Error (kResourceExhausted) if the unit is larger
  /// than max_unit_bytes(), which waiting would not change; kCorruptData for a scribbled ring.
  RingSpace try_begin(std::uint64_t size_bytes);

  /// As try_begin(), but waits for room.
  RingSpace begin(std::uint64_t size_bytes, const Wait& wait);

  /// Publishes the unit begun, or its first `size_bytes`, and wakes the reader if it sleeps.
  /// Requires: begun, and `size_bytes` not larger than begun (Error kInternal otherwise).
  void commit();
  void commit(std::uint64_t size_bytes);

  /// Drops the unit begun, if any.
  void abort() noexcept { begun_ = false; }

  /// No more units: the reader gets kClosed after the last one. A begin() that waits in another
  /// thread returns kClosed. Idempotent.
  void close();

  /// True while the reader has released everything and sleeps until the next unit.
  bool reader_waits() const;

  std::uint64_t max_unit_bytes() const;
  std::uint64_t units_committed() const { return sequence_; }

 private:
  bool closed() const;
  std::uint64_t load_released();
  bool sleep(const Wait& wait, RingStatus& otherwise);

  const SharedRange range_;
  RingHeader* const header_;
  std::byte* const units_;
  const std::uint64_t capacity_;
  const std::shared_ptr<const Doorbell> wake_reader_;
  const std::shared_ptr<const Doorbell> own_;
  const RingWriterOptions options_;
  const OwnerProcess owner_;

  // Private truth; shared memory only ever gets copies.
  std::uint64_t head_ = 0;      // end of the last committed unit
  std::uint64_t released_ = 0;  // last valid value read
  std::uint64_t sequence_ = 0;
  std::deque<std::uint64_t> unit_ends_;  // of unreleased units, if max_units is set
  std::uint64_t wanted_ = 0;             // `released` at which the last refused begin() has room
  bool begun_ = false;
  std::uint64_t begun_size_ = 0;
  std::uint64_t begun_padding_ = 0;
};

/// The reading end. One per ring. Not thread-safe, except close(). Every function throws Error
/// (kCancelled) in a forked child of the process that made it.
class RingReader {
 public:
  /// `wake_writer` is what the writer polls, `own` what this side polls. Throws Error
  /// (kCorruptData) if `range` holds no ring.
  RingReader(SharedRange range, std::shared_ptr<const Doorbell> wake_writer,
             std::shared_ptr<const Doorbell> own);
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  /// The next unit, validated; the same one until release(). kTimedOut at once if there is none.
  /// Throws Error (kCorruptData) if the ring was scribbled over.
  RingUnit try_read();

  /// As try_read(), but waits for a unit. A unit that is there wins over deadline and death.
  RingUnit read(const Wait& wait);

  /// Gives the unit back to the writer; its bytes are gone. Requires: a unit was read (Error
  /// kInternal otherwise).
  void release();

  /// No more reading: the writer gets kClosed; a read() that waits in another thread, and each
  /// later one, returns kClosed. Idempotent.
  void close();

  /// For a poll of your own over several rings: prepare_wait() is false if try_read() would not
  /// return kTimedOut; if true, poll doorbell_fd() with the rest, then call finish_wait() in any
  /// case.
  bool prepare_wait();
  void finish_wait();
  int doorbell_fd() const { return own_->fd(); }

  std::uint64_t units_released() const { return sequence_; }

 private:
  std::uint64_t load_published();
  UnitHeader read_header(std::uint64_t cursor) const;
  bool spin();

  const SharedRange range_;
  RingHeader* const header_;
  const std::byte* const units_;
  const std::uint64_t capacity_;
  const std::shared_ptr<const Doorbell> wake_writer_;
  const std::shared_ptr<const Doorbell> own_;
  const OwnerProcess owner_;

  // Private truth, as in the writer.
  std::uint64_t cursor_ = 0;     // end of the last released unit, past any padding read
  std::uint64_t published_ = 0;  // last valid value read
  std::uint64_t sequence_ = 0;
  bool held_ = false;
  std::uint64_t held_stride_ = 0;
  ByteView held_bytes_;
  unsigned spins_ = 0;  // how long to spin before sleeping; grows while spinning pays
};

}  // namespace energon
