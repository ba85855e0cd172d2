// The parent's half of the arena: leases on published slots.
//
// Every object that views the bytes of a slot holds its lease; a tensor holds it in its deleter.
// When the last copy of the lease is destroyed, in any thread, the slot returns to the worker. A
// lease keeps the mapping alive and may outlive the loader, the channel and the worker. In a forked
// child of the parent, destroying a lease has no effect.

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

  /// Number of live leases.
  std::uint64_t leases() const;

 private:
  struct ReturnLane;
  struct Lease;

  const SharedRange range_;
  const std::shared_ptr<ReturnLane> lane_;
};

}  // namespace energon
