// The parent's half of the arena: leases on published slots.
//
// Every object that views the bytes of a slot holds its lease; a tensor holds it in its deleter.
// When the last copy of the lease is destroyed, in any thread, the slot returns to the worker. In a
// forked child of the parent, destroying a lease has no effect.
//
// A lease keeps its bytes alive and may outlive the loader, the channel and the worker. It then
// keeps only its own pages: when the parent leaves the arena, everything that no lease views goes
// back to the system, memory and address space, and each lease gives its pages back at its end.

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "energon/process/message_ring.h"
#include "energon/process/shared_memory.h"
#include "energon/process/slot_reference.h"
#include "io/bytes.h"

namespace energon {

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

  /// For good: from here on the memory that the arena lies in, all of it, is used by live leases
  /// only. What they do not view is unmapped and its descriptors are closed. If the worker has
  /// ended, the pages go back to the system, too; else it could still write to them. Requires: no
  /// further call but the destructor.
  void leave(bool worker_has_ended);

 private:
  struct Loans;
  struct Lease;

  const std::shared_ptr<Loans> loans_;
};

}  // namespace energon
