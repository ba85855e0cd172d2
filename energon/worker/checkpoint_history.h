// The checkpoints of a rank's streams that are kept in the trainer's process: those of pipelines
// that run in it, and those that workers left when they ended.
//
// Together with the rings of running workers they lead back to every batch that the rank can go
// back to. For each stream the checkpoints have no gaps: the position after some batches is the
// newest checkpoint not after them, and the number of batches since. So only the oldest ones are
// ever given up.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/state/byte_codec.h"
#include "io/concurrency.h"

namespace energon {

/// Thread-safe.
class CheckpointHistory {
 public:
  /// `bytes_per_stream`: maximum size of the checkpoints of a stream. The newest two are kept
  /// whatever their size: of a batch that is not delivered yet, and the one before it.
  explicit CheckpointHistory(std::uint64_t bytes_per_stream)
      : bytes_per_stream_(bytes_per_stream) {}

  /// Forgets everything. Stream i begins at `starts[i]`.
  void begin(std::span<const SavableDatasetCheckpoint> starts);

  /// Adds a checkpoint of `stream`, which is not older than the last one. Returns its size.
  std::uint64_t add(std::size_t stream, const SavableDatasetCheckpoint& checkpoint);
  /// The same, encoded. Throws Error (kCorruptData) if the bytes are too short.
  void add(std::size_t stream, std::string bytes);

  /// Forgets what is only needed for positions of `stream` before `position`.
  void forget_before(std::size_t stream, const CheckpointPlace& position);
  /// Forgets the checkpoints of `stream` that do not lead to `position`.
  void forget_after(std::size_t stream, const CheckpointPlace& position);
  /// Forgets all checkpoints of `stream`.
  void forget(std::size_t stream);

  struct Kept {
    CheckpointPlace place;
    std::string bytes;  ///< the encoded checkpoint
  };
  /// The newest checkpoint of `stream` that leads to `position`; nullopt if there is none.
  std::optional<Kept> newest(std::size_t stream, const CheckpointPlace& position) const;

  /// The place of the oldest checkpoint of `stream`; nullopt if there is none.
  std::optional<CheckpointPlace> oldest(std::size_t stream) const;

 private:
  struct Stream {
    std::deque<Kept> kept;  // in the order of their places; of equal ones the newer one is last
    std::uint64_t bytes = 0;
  };

  void add_to(Stream& stream, Kept checkpoint) const ENERGON_REQUIRES(mutex_);

  const std::uint64_t bytes_per_stream_;
  mutable Mutex mutex_;
  std::vector<Stream> streams_ ENERGON_GUARDED_BY(mutex_);
  ByteWriter writer_ ENERGON_GUARDED_BY(mutex_);  // reused to avoid allocations
};

}  // namespace energon
