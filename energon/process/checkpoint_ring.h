// The last n checkpoints of a worker, in shared memory, readable after its death.
//
// n slots, written in turn by the worker's main thread only. A slot carries a sequence word that is
// odd while it is written, the sample index, the size and an XXH3 checksum over all of it: a reader
// gets a whole checkpoint or none. Nobody waits, and nothing is repaired: a slot that its writer
// left half done is skipped. Bytes: docs/formats/shared_memory.md.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/process/owner_process.h"
#include "energon/process/shared_memory.h"
#include "io/bytes.h"

namespace energon {

struct CheckpointSlot;

struct CheckpointRingOptions {
  /// Checkpoints kept (option `n_checkpoints`): everything in flight plus one, at least 2.
  std::uint32_t slots = 8;

  /// Largest checkpoint (option `checkpoint_slot_bytes`). Only what is used costs memory.
  std::uint64_t slot_bytes = std::uint64_t{64} << 20;
};

struct Checkpoint {
  std::uint64_t index = 0;     ///< sample index, as the worker counts
  std::uint64_t sequence = 0;  ///< of two with the same index the higher one is newer
  std::vector<std::byte> bytes;
};

/// Throws Error (kInvalidArgument) for fewer than two slots or a slot above 2^40 bytes.
std::uint64_t checkpoint_ring_footprint(const CheckpointRingOptions& options);

/// Worker side. Not thread-safe.
class CheckpointWriter {
 public:
  /// Requires: `range` is zero or was written by this class with the same options. Throws Error
  /// (kInvalidArgument) if it is too small.
  CheckpointWriter(SharedRange range, CheckpointRingOptions options);

  /// Stores a checkpoint over the oldest one. Throws Error (kResourceExhausted) with the option and
  /// both sizes if it is larger than a slot, kInvalidArgument if `index` is below the last one.
  void write(std::uint64_t index, ByteView bytes);

 private:
  const SharedRange range_;
  const CheckpointRingOptions options_;
  const OwnerProcess owner_;
  std::uint64_t written_ = 0;
  std::optional<std::uint64_t> last_index_;
};

/// Any process that maps the memory, any number of readers. Thread-safe.
class CheckpointReader {
 public:
  CheckpointReader(SharedRange range, CheckpointRingOptions options);

  /// The newest whole checkpoint whose index is at most `index`; none if it is not (or no longer)
  /// there. Also while the writer writes: one that it overwrites meanwhile is passed over, never
  /// read half. Looks at each slot a few times at most.
  std::optional<Checkpoint> newest_not_after(std::uint64_t index) const;

  /// Indexes of all whole checkpoints, ascending.
  std::vector<std::uint64_t> indexes() const;

 private:
  std::optional<Checkpoint> read_slot(std::uint32_t slot) const;

  const SharedRange range_;
  const CheckpointRingOptions options_;
};

}  // namespace energon
