// The last n checkpoints of a worker, in shared memory, readable after its death.
//
// The ring has n slots, which only the worker's main thread writes, in turn. A slot has a sequence
// word (odd while the slot is being written), the sample index, the size, and an XXH3 checksum of
// the index and the bytes. A reader therefore gets a complete checkpoint or none. Neither side ever
// waits, and nothing is repaired: a half-written slot is skipped. Layout:
// docs/formats/shared_memory.md.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/process/shared_memory.h"
#include "io/bytes.h"
#include "io/owner_process.h"

namespace energon {

struct CheckpointSlot;

struct CheckpointRingOptions {
  /// Number of checkpoints kept (option `n_checkpoints`): the batches in flight plus one, at least
  /// 2.
  std::uint32_t slots = 8;

  /// Maximum size of a checkpoint (option `checkpoint_slot_bytes`). Only used bytes take memory.
  std::uint64_t slot_bytes = std::uint64_t{64} << 20;
};

struct Checkpoint {
  std::uint64_t index = 0;     ///< sample index, in the worker's count
  std::uint64_t sequence = 0;  ///< of two with the same index, the higher one is newer
  std::vector<std::byte> bytes;
};

/// Returns the bytes of a ring with these options. Throws Error (kInvalidArgument) for fewer than 2
/// or more than 65536 slots, or a slot above 2^40 bytes.
std::uint64_t checkpoint_ring_footprint(const CheckpointRingOptions& options);

/// Worker side. Not thread-safe.
class CheckpointWriter {
 public:
  /// Requires: `range` is filled with zeros or was written by this class with the same options.
  /// Throws Error (kInvalidArgument) if it is too small.
  CheckpointWriter(SharedRange range, CheckpointRingOptions options);

  /// Stores a checkpoint over the oldest one. Throws Error: kResourceExhausted, with the option and
  /// both sizes, if it is larger than a slot; kInvalidArgument if `index` is below the last one;
  /// kCancelled in a forked child of the process that made this object.
  void write(std::uint64_t index, ByteView bytes);

  /// Number of checkpoints kept.
  std::uint32_t slots() const { return options_.slots; }

 private:
  const SharedRange range_;
  const CheckpointRingOptions options_;
  const OwnerProcess owner_;
  std::uint64_t written_ = 0;
  std::optional<std::uint64_t> last_index_;
};

/// Usable in any process that maps the memory, by any number of readers. Thread-safe.
class CheckpointReader {
 public:
  CheckpointReader(SharedRange range, CheckpointRingOptions options);

  /// Returns the newest complete checkpoint whose index is at most `index`; nullopt if there is
  /// none (any more). Works while the writer writes: a checkpoint that is overwritten during the
  /// call is skipped, never read half. The number of attempts is bounded.
  std::optional<Checkpoint> newest_not_after(std::uint64_t index) const;

  /// Indexes of all complete checkpoints, ascending.
  std::vector<std::uint64_t> indexes() const;

 private:
  std::optional<Checkpoint> read_slot(std::uint32_t slot) const;

  const SharedRange range_;
  const CheckpointRingOptions options_;
};

}  // namespace energon
