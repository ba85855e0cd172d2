// The arena of a worker: slots for payloads in a large sparse reservation. The worker's half is
// ArenaWriter, the parent's half ArenaReader with leases on published slots.
//
//     free ──acquire──> writing ──publish──> held by the parent ──lease dies──> returned ──> free
//       ^                  │ (destroyed)                                                       │
//       └──────────────────┴───────────────────────────────────────────────────────────────────┘
//
// A batch is built in its final place. All bookkeeping is in the worker's private memory, so a
// worker that dies leaves no shared bookkeeping to repair; its successor gets a fresh arena. Slot
// sizes are powers of two, and each size has its own part of the reservation
// (size_class_layouts()). The most recently used slot is handed out first, so a steady state
// touches no new pages. `limit_bytes` bounds the memory touched by slots in use and by free slots
// that are kept. Free slots beyond `keep_free_bytes` give their pages back, least recently used
// first.
//
// Layout: docs/formats/shared_memory.md.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "energon/process/message_ring.h"
#include "energon/process/shared_memory.h"
#include "energon/process/wait.h"
#include "io/bytes.h"

namespace energon {

// The address space of an arena, divided into slots.
//
// Slot sizes are powers of two, one page or more. Each size has its own part, and the parts are
// stored one after the other. Worker and parent compute the same layout from the same options.
// docs/formats/shared_memory.md describes it.

/// Maximum `limit_bytes` of an arena.
inline constexpr std::uint64_t kMaxArenaLimitBytes = std::uint64_t{1} << 40;

/// Maximum number of slots outside the worker at one time. The return ring has room for all of
/// them, so returning a slot never waits.
inline constexpr std::uint64_t kMaxSlotsHeld = std::uint64_t{1} << 15;
/// Capacity of the return ring.
inline constexpr std::uint64_t kReturnRingBytes = std::uint64_t{2} << 20;

/// Address space of an arena with this limit, in bytes: a multiple of the limit, because each slot
/// size has its own part. At most `reserve_bytes`, unless that is 0. Throws Error
/// (kInvalidArgument) for a limit below one page or above 2^40, or a reserve below
/// least_arena_footprint().
std::uint64_t arena_footprint(std::uint64_t limit_bytes, std::uint64_t reserve_bytes = 0);

/// Minimum address space of an arena with this limit, in bytes: one slot of each size, two to four
/// times the limit.
std::uint64_t least_arena_footprint(std::uint64_t limit_bytes);

/// The part of an arena for the slots of one size.
struct SizeClassLayout {
  std::uint64_t base = 0;  ///< first byte in the arena
  std::uint64_t slot_bytes = 0;
  std::uint64_t slot_limit = 0;  ///< number of slots
};

/// The parts of an arena, smallest slots first. Throws like arena_footprint().
std::vector<SizeClassLayout> size_class_layouts(std::uint64_t limit_bytes,
                                                std::uint64_t reserve_bytes);

/// Position in size_class_layouts() of the smallest slots that hold `size_bytes`; past its end if
/// there are none.
std::size_t size_class_of(std::uint64_t size_bytes);

// The reference to a slot of the arena in a ring unit: docs/formats/shared_memory.md, "Slot
// reference".

/// Trivially copyable; copied into and out of ring units by memcpy. The parent checks it against
/// the bounds of the arena before use.
struct SlotReference {
  std::uint64_t offset = 0;      ///< of the first byte, within the arena; page-aligned
  std::uint64_t size_bytes = 0;  ///< of the payload
  std::uint32_t slot = 0;        ///< slot number in the worker's arena
  std::uint32_t tag = 0;         ///< number of the publication of that slot

  bool operator==(const SlotReference&) const = default;
};

static_assert(sizeof(SlotReference) == 24 && std::is_trivially_copyable_v<SlotReference>);

struct ArenaOptions {
  /// Maximum number of bytes that the arena may touch (option `arena_limit_bytes`). At least one
  /// page.
  std::uint64_t limit_bytes = std::uint64_t{2} << 30;

  /// Maximum address space of the slots, in bytes; 0 means as much as any mix of sizes can need.
  /// With less, a larger slot is used when all slots of the right size are taken, which wastes
  /// address space but not memory.
  std::uint64_t reserve_bytes = 0;

  /// Free bytes to keep instead of returning them to the system. A larger value is faster after a
  /// burst, because a returned page costs another first touch.
  std::uint64_t keep_free_bytes = std::uint64_t{1} << 30;

  /// How long acquire() waits once the arena is full *and* the consumer itself waits for this
  /// worker (ArenaWriter::set_consumer_waits). In that case no slot comes back unless another
  /// thread drops a batch.
  std::chrono::milliseconds starvation_limit = std::chrono::seconds(5);
};

class ArenaWriter;

/// A slot that is being written. Move-only. If it is destroyed without publish(), the slot becomes
/// free again. Must not outlive its ArenaWriter.
class ArenaSlot {
 public:
  ArenaSlot() = default;
  ArenaSlot(ArenaSlot&& other) noexcept { swap(other); }
  ArenaSlot& operator=(ArenaSlot&& other) noexcept {
    ArenaSlot(std::move(other)).swap(*this);
    return *this;
  }
  ~ArenaSlot();

  /// Empties this object without freeing the slot, for use when the ArenaWriter may be destroyed.
  void forget() noexcept { arena_ = nullptr; }

  /// The requested bytes, page-aligned and not cleared.
  std::span<std::byte> bytes() const { return {data_, size_}; }
  /// Up to this size, resize() moves the content only if the limit is reached.
  std::uint64_t capacity() const { return capacity_; }

  /// Shrinks the slot, or grows it and keeps the content. Within capacity() the content stays in
  /// place if the limit allows the growth. Otherwise it is copied into another slot, and bytes()
  /// changes. Throws the Errors of ArenaWriter::acquire(); the slot is then unchanged.
  void resize(std::uint64_t size_bytes, const Wait& wait);

  /// Hands the slot to the parent. Call it between begin() and commit() of the ring unit that
  /// carries the reference. Afterwards this object is empty and the bytes must not be written.
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

/// Worker side. Not thread-safe: used only by the worker's main thread.
class ArenaWriter {
 public:
  /// `returned` reads the ring into which the parent puts slots back. Throws Error
  /// (kInvalidArgument) if `range` is smaller than arena_footprint().
  ArenaWriter(SharedRange range, std::unique_ptr<RingReader> returned, ArenaOptions options);

  /// `waits` returns whether the consumer is currently waiting for this worker. If it is not set,
  /// the consumer is assumed to be always waiting.
  void set_consumer_waits(std::function<bool()> waits) { consumer_waits_ = std::move(waits); }

  /// Returns a slot of at least `size_bytes`. If the limit is reached, waits until the parent
  /// returns slots. Throws Error: kResourceExhausted immediately if `size_bytes` exceeds the limit,
  /// or when the deadline or `starvation_limit` has passed (the message has the bytes held by the
  /// consumer, the limit reached, and what to change); kCancelled if the parent closed the channel
  /// or is gone; kInternal if the parent returned a slot that it does not hold; kCorruptData if the
  /// return ring is damaged.
  ArenaSlot acquire(std::uint64_t size_bytes, const Wait& wait);

  /// Frees the slots that the parent returned and those that the function of set_reclaim()
  /// destroys, then gives free memory above `keep_free_bytes` back to the system. acquire() does
  /// the same; call it when idle.
  void collect();

  /// `reclaim` destroys slots that this process no longer uses. collect() calls it.
  void set_reclaim(std::function<void()> reclaim) { reclaim_ = std::move(reclaim); }

  /// Makes acquire() calls, including a waiting one, throw kCancelled. May be called from any
  /// thread.
  void close() { returned_->close(); }

  std::uint64_t touched_bytes() const { return touched_; }  ///< charged against the limit
  std::uint64_t free_bytes() const { return free_; }  ///< part of touched_bytes() in free slots
  std::uint64_t slots_held() const { return held_; }  ///< published and not yet returned
  /// Total time that acquire() calls waited for the parent.
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  friend class ArenaSlot;

  enum class SlotState : std::uint8_t { kFree, kWriting, kHeld };
  struct Slot {
    std::uint64_t offset = 0;         // in the arena
    std::uint64_t touched_bytes = 0;  // charged: largest request since the last punch
    std::uint64_t freed_at =
        0;  // sequence number of the free, to punch the least recently used first
    std::uint32_t size_class = 0;
    std::uint32_t tag = 0;  // counts publications, to detect a stale return
    SlotState state = SlotState::kFree;
  };
  /// The free slots of one size: those with touched pages (most recently used last) and those
  /// without.
  struct SizeClass {
    SizeClassLayout layout;
    std::uint64_t slot_count = 0;  // created so far
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

// The parent's half of the arena: leases on published slots.
//
// Every object that views the bytes of a slot holds its lease; a tensor holds it in its deleter.
// When the last copy of the lease is destroyed, in any thread, the slot returns to the worker. In a
// forked child of the parent, destroying a lease has no effect.
//
// A lease keeps its bytes alive and may outlive the loader, the channel and the worker. It then
// keeps only its own pages: when the parent leaves the arena, everything that no lease views goes
// back to the system, memory and address space, and each lease gives its pages back at its end.

/// The bytes of one slot, and the object that keeps them alive. Cheap to copy. The parent may write
/// the bytes.
struct SlotLease {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;

  SharedBytes shared_bytes() const { return {bytes, owner}; }
};

/// Parent side. Only one thread at a time may call lease(). Leases may be destroyed in any thread,
/// at any time.
class ArenaReader {
 public:
  /// `returns` writes to the ring that the ArenaWriter reads.
  ArenaReader(SharedRange range, std::unique_ptr<RingWriter> returns);
  ~ArenaReader();
  ArenaReader(const ArenaReader&) = delete;
  ArenaReader& operator=(const ArenaReader&) = delete;

  /// Takes the slot named in a unit from the worker. Call it once per reference, because each lease
  /// returns the slot. Throws Error: kCorruptData if the reference is not inside the arena,
  /// kCancelled in a forked child.
  SlotLease lease(const SlotReference& reference);

  /// Tells the worker that no more slots are needed. Leases stay valid. May be called from any
  /// thread.
  void close();

  /// Abandons the memory of the channel, except what live leases view: the rest is unmapped and its
  /// descriptors are closed. If the worker has ended, so that nobody can write to the pages, they
  /// are returned to the system, too. Requires: no further call except the destructor.
  void leave(bool worker_has_ended);

 private:
  struct Loans;
  struct Lease;

  const std::shared_ptr<Loans> loans_;
};

}  // namespace energon
