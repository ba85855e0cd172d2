// The last checkpoints of a worker, in shared memory, readable after its death.
//
// Only the worker's main thread writes. It always keeps the newest `slots` checkpoints, which saves
// need, and before them older ones as history, up to a number and a sum of bytes. Each checkpoint
// has an entry in a table, with a sequence word (odd while the entry changes), the sample index,
// the place and size of the bytes, and an XXH3 checksum of the index and the bytes. A reader
// therefore gets a complete checkpoint or none. Neither side ever waits, and nothing is repaired: a
// half-written entry is skipped. The bytes of a checkpoint are stored in the first gap that is
// large enough, so the memory in use stays near its lower end. Layout:
// docs/formats/shared_memory.md.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "energon/process/shared_memory.h"
#include "io/bytes.h"
#include "io/concurrency.h"

namespace energon {

struct CheckpointEntry;

struct CheckpointRingOptions {
  /// Number of checkpoints that are always kept (option `n_checkpoints`): those that saves may need
  /// for the batches in flight, plus one. At least 2.
  std::uint32_t slots = 8;

  /// Maximum size of a checkpoint (option `checkpoint_slot_bytes`). Only used bytes take memory.
  std::uint64_t slot_bytes = std::uint64_t{64} << 20;

  /// Maximum number of older checkpoints that are kept as history.
  std::uint32_t history_slots = 0;
  /// Maximum sum of their bytes.
  std::uint64_t history_bytes = 0;
};

struct Checkpoint {
  std::uint64_t index = 0;     ///< sample index, in the worker's count
  std::uint64_t sequence = 0;  ///< of two with the same index, the higher one is newer
  std::vector<std::byte> bytes;
};

/// Returns the bytes of a ring with these options. Throws Error (kInvalidArgument) for fewer than 2
/// or more than 65536 slots (of each kind), or a slot or a history above 2^40 bytes.
std::uint64_t checkpoint_ring_footprint(const CheckpointRingOptions& options);

/// Worker side. Not thread-safe.
class CheckpointWriter {
 public:
  /// Requires: `range` is filled with zeros or was written by this class with the same options.
  /// Throws Error (kInvalidArgument) if it is too small.
  CheckpointWriter(SharedRange range, CheckpointRingOptions options);

  /// Stores a checkpoint. Gives up the oldest ones that no longer fit. Throws Error:
  /// kResourceExhausted, with the option and both sizes, if it is larger than a slot;
  /// kInvalidArgument if `index` is below the last one; kCancelled in a forked child of the process
  /// that made this object.
  void write(std::uint64_t index, ByteView bytes);

  /// Number of checkpoints that are always kept.
  std::uint32_t slots() const { return options_.slots; }
  /// Number of checkpoints that can be read now.
  std::size_t stored_count() const { return stored_.size(); }

 private:
  struct StoredCheckpoint {
    std::uint32_t entry;
    std::uint64_t offset;  // in the area of the bytes
    std::uint64_t size;    // with padding
  };

  void drop_oldest();
  std::optional<std::uint64_t> gap_for(std::uint64_t size) const;
  std::uint64_t make_room(std::uint64_t size);

  const SharedRange range_;
  const CheckpointRingOptions options_;
  const OwnerProcess owner_;
  std::uint64_t written_ = 0;
  std::optional<std::uint64_t> last_index_;
  std::deque<StoredCheckpoint> stored_;      // oldest first
  std::vector<StoredCheckpoint> by_place_;   // the same, by offset
  std::vector<std::uint32_t> free_entries_;  // the last one is used next
  std::uint64_t history_bytes_ =
      0;  // bytes of the checkpoints that are history after the next write()
};

/// Usable in any process that maps the memory, by any number of readers. Thread-safe.
class CheckpointReader {
 public:
  CheckpointReader(SharedRange range, CheckpointRingOptions options);

  /// Returns the newest complete checkpoint whose index is at most `index`; nullopt if there is
  /// none (any more). Works while the writer writes: a checkpoint that is overwritten during the
  /// call is skipped, never read half. The number of attempts is bounded.
  std::optional<Checkpoint> newest_not_after(std::uint64_t index) const;

  /// The complete checkpoints whose index is from `first` to `last`, oldest first.
  std::vector<Checkpoint> between(std::uint64_t first, std::uint64_t last) const;

  /// Indexes of all complete checkpoints, ascending.
  std::vector<std::uint64_t> indexes() const;

  /// The oldest checkpoint, with its first `bytes` bytes only, or fewer if it has fewer; nullopt if
  /// there is none. The checksum is not compared, so the checkpoint may turn out to be damaged.
  std::optional<Checkpoint> oldest(std::size_t bytes) const;

 private:
  std::uint32_t entries() const { return options_.slots + options_.history_slots; }
  std::optional<Checkpoint> read_entry(std::uint32_t entry) const;
  std::optional<Checkpoint> read_begin(std::uint32_t entry, std::size_t bytes,
                                       std::uint64_t& checksum) const;

  const SharedRange range_;
  const CheckpointRingOptions options_;
};

}  // namespace energon
