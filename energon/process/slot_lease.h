// The parent's half of the arena: leases on published slots.
//
// Whoever views a slot's bytes holds its lease (a tensor holds it in its deleter). When the last
// copy of the lease dies, in any thread, the slot returns to the worker. A lease keeps the mapping
// alive: it may outlive the loader, the channel and the worker. In a forked child of the parent a
// lease's death does nothing.

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "energon/process/message_ring.h"
#include "energon/process/shared_memory.h"
#include "energon/process/slot_reference.h"
#include "io/bytes.h"

namespace energon {

/// The bytes of one slot and what keeps them. Cheap to copy. The parent may write the bytes.
struct SlotLease {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;

  SharedBytes shared_bytes() const { return {bytes, owner}; }
};

/// Parent side. lease() is for one thread at a time; leases may die in any thread, at any time.
class ArenaReader {
 public:
  /// `returns` writes the ring that ArenaWriter reads.
  ArenaReader(SharedRange range, std::unique_ptr<RingWriter> returns);
  ~ArenaReader();
  ArenaReader(const ArenaReader&) = delete;
  ArenaReader& operator=(const ArenaReader&) = delete;

  /// Takes over the slot that a unit of the worker names. Call it once per unit: each lease returns
  /// the slot. Throws Error: kCorruptData if the reference does not lie inside the arena,
  /// kCancelled after a fork.
  SlotLease lease(const SlotReference& reference);

  /// Tells the worker that no slot is needed any more. Leases stay valid. From any thread.
  void close();

  /// Leases alive.
  std::uint64_t leases() const;

 private:
  struct ReturnLane;
  struct Lease;

  const SharedRange range_;
  const std::shared_ptr<ReturnLane> lane_;
};

}  // namespace energon
