// The worker's half of the arena: slots for payloads in a large sparse reservation.
//
//     free ──acquire──> writing ──publish──> held by the parent ──lease dies──> returned ──> free
//       ^                  │ (destroyed)                                                       │
//       └──────────────────┴───────────────────────────────────────────────────────────────────┘
//
// A batch is built in its final place. All bookkeeping lives in the worker's private memory, so
// there is nothing to tear: what a dead worker left is never repaired, its successor gets a fresh
// arena. Slots come in powers of two, each size with its own part of the reservation; the most
// recently used slot is handed out first, so that a steady state touches no new page. `limit`
// bounds the memory that slots in use and kept ones have touched; free slots above `keep_free` give
// their pages back, the longest unused first.
//
// The parent's half is in slot_lease.h. Bytes: docs/formats/shared_memory.md.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "energon/process/message_ring.h"
#include "energon/process/shared_memory.h"
#include "energon/process/slot_reference.h"
#include "energon/process/wait.h"

namespace energon {

struct ArenaOptions {
  /// Bytes of memory that the arena may touch at most (option `arena_limit_bytes`). At least one
  /// page.
  std::uint64_t limit_bytes = std::uint64_t{2} << 30;

  /// Address space that the slots may take at most; 0: as much as any mix of sizes can need. With
  /// less, a slot of a larger size is taken when those of its own are used up, so that only the
  /// address space is less well used, not the memory.
  std::uint64_t reserve_bytes = 0;

  /// Free bytes that are kept warm instead of given back to the system. Larger is faster after a
  /// burst: a page that was given back costs a first touch again.
  std::uint64_t keep_free_bytes = std::uint64_t{1} << 30;

  /// How long acquire() waits for the consumer once the arena is full *and* the consumer itself
  /// waits for this worker (ArenaWriter::set_consumer_waits): then nothing will come back unless
  /// another thread drops a batch.
  std::chrono::milliseconds starvation_limit = std::chrono::seconds(5);
};

/// Address space for an arena with this limit: a multiple of it, as each slot size has its own
/// part. With `reserve_bytes` not more than that. Throws Error (kInvalidArgument) for a limit below
/// one page or above 2^40, or a reserve below least_arena_footprint().
std::uint64_t arena_footprint(std::uint64_t limit_bytes, std::uint64_t reserve_bytes = 0);

/// The address space that an arena with this limit needs at least: one slot of each size, two to
/// four times the limit.
std::uint64_t least_arena_footprint(std::uint64_t limit_bytes);

/// Slots that may be outside the worker at one time. The return ring has room for all of them, so
/// that giving a slot back never waits.
inline constexpr std::uint64_t kMaxSlotsHeld = std::uint64_t{1} << 15;
/// Capacity of the return ring.
inline constexpr std::uint64_t kReturnRingBytes = std::uint64_t{2} << 20;

class ArenaWriter;

/// A slot that is being written. Move-only; a slot that is destroyed without publish() goes back.
/// Must not outlive its ArenaWriter.
class ArenaSlot {
 public:
  ArenaSlot() = default;
  ArenaSlot(ArenaSlot&& other) noexcept { swap(other); }
  ArenaSlot& operator=(ArenaSlot&& other) noexcept {
    ArenaSlot(std::move(other)).swap(*this);
    return *this;
  }
  ~ArenaSlot();

  /// Empties this object without giving the slot back: where the ArenaWriter may be gone.
  void forget() noexcept { arena_ = nullptr; }

  /// The bytes asked for; page-aligned. Contents are what the last user left.
  std::span<std::byte> bytes() const { return {data_, size_}; }
  /// Up to here resize() moves nothing.
  std::uint64_t capacity() const { return capacity_; }

  /// Shrinks, or grows keeping the content. Within capacity() this is free; beyond it the content
  /// is copied into a larger slot, and bytes() moves. Errors as ArenaWriter::acquire(); the slot is
  /// then unchanged.
  void resize(std::uint64_t size_bytes, const Wait& wait);

  /// Hands the slot to the parent: call it between begin() and commit() of the ring unit that
  /// carries the reference. Afterwards this object is empty and its bytes must not be written.
  SlotReference publish();

 private:
  friend class ArenaWriter;
  void swap(ArenaSlot& other) noexcept;

  ArenaWriter* arena_ = nullptr;
  std::uint32_t slot_ = 0;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t capacity_ = 0;
};

/// Worker side. Not thread-safe: for the worker's main thread.
class ArenaWriter {
 public:
  /// `returned` reads the ring into which the parent puts slots back. Throws Error
  /// (kInvalidArgument) if `range` is smaller than arena_footprint().
  ArenaWriter(SharedRange range, std::unique_ptr<RingReader> returned, ArenaOptions options);

  /// `waits` says whether the consumer waits for this worker right now. Without it the consumer is
  /// taken to wait always.
  void set_consumer_waits(std::function<bool()> waits) { consumer_waits_ = std::move(waits); }

  /// A slot of at least `size_bytes`. If the limit is reached, waits until the parent gives slots
  /// back. Throws Error: kResourceExhausted at once if `size_bytes` is above the limit, or when the
  /// deadline or `starvation_limit` passed (the message has the limit, the bytes held by the
  /// consumer and the option); kCancelled if the parent closed the channel or is gone; kInternal if
  /// the return ring is damaged.
  ArenaSlot acquire(std::uint64_t size_bytes, const Wait& wait);

  /// Takes in what the parent gave back, and what `reclaim` of set_reclaim() gives back, and
  /// punches free memory above the mark. acquire() does it too; call it when idle.
  void collect();

  /// `reclaim` destroys slots that this process has no use for any more. Called by collect().
  void set_reclaim(std::function<void()> reclaim) { reclaim_ = std::move(reclaim); }

  /// Ends acquire() calls, also one that waits, with kCancelled. From any thread.
  void close() { returned_->close(); }

  std::uint64_t touched_bytes() const { return touched_; }  ///< charged against the limit
  std::uint64_t free_bytes() const { return free_; }        ///< of which in free slots
  std::uint64_t slots_held() const { return held_; }        ///< published, not returned
  /// Time that acquire() calls spent waiting for the parent.
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  friend class ArenaSlot;

  enum class SlotState : std::uint8_t { kFree, kWriting, kHeld };
  struct Slot {
    std::uint64_t offset = 0;         // in the arena
    std::uint64_t touched_bytes = 0;  // charged: most that was asked for since the last punch
    std::uint64_t freed_at = 0;       // order of frees, for punching the longest unused
    std::uint32_t size_class = 0;
    std::uint32_t tag = 0;  // counts publications, so that a stale return is noticed
    SlotState state = SlotState::kFree;
  };
  /// Free slots of one size: pages touched (most recently used last) and untouched ones.
  struct SizeClass {
    std::uint64_t base = 0;
    std::uint64_t slot_bytes = 0;
    std::uint64_t slot_count = 0;  // made so far
    std::uint64_t slot_limit = 0;
    std::deque<std::uint32_t> warm;
    std::vector<std::uint32_t> cold;
  };

  std::optional<ArenaSlot> try_acquire(std::uint64_t size_bytes);
  std::optional<std::uint32_t> take_slot(SizeClass& size_class);
  bool charge(std::uint32_t slot, std::uint64_t size_bytes);
  bool make_room(std::uint64_t extra_bytes);
  bool punch_longest_unused();
  void give_back(std::uint32_t slot);
  void take_return(ByteView unit);
  void wait_for_return(std::uint64_t size_bytes, const Wait& wait, Deadline& starved_at);
  [[noreturn]] void refuse(std::uint64_t size_bytes, const char* reason) const;

  const SharedRange range_;
  const std::unique_ptr<RingReader> returned_;
  const ArenaOptions options_;
  std::function<bool()> consumer_waits_;
  std::function<void()> reclaim_;

  std::vector<SizeClass> classes_;
  std::vector<Slot> slots_;  // by slot number; only grows
  std::uint64_t touched_ = 0;
  std::uint64_t free_ = 0;
  std::uint64_t held_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t frees_ = 0;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace energon
