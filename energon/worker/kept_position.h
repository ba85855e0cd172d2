// When the position of a stream that runs in the caller's process is stored: the counterpart of a
// worker's checkpoints. It is needed because a failed pipeline may have consumed samples that it
// did not deliver, so its own position is too late, and because the positions before the last one
// can be asked for.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/worker/checkpoint_history.h"
#include "energon/worker/checkpoint_interval.h"

namespace energon {

/// Not thread-safe.
class KeptPosition {
 public:
  /// Positions of stream `stream` go to `history`, which must outlive this object. `every_batches`:
  /// as in CheckpointInterval.
  KeptPosition(CheckpointHistory& history, std::size_t stream,
               std::optional<std::int64_t> every_batches)
      : history_(history), stream_(stream), interval_(every_batches) {}

  /// See CheckpointInterval::due(). There is always room.
  bool due(const MadeBatch& batch) { return interval_.due(batch) != CheckpointDue::kNo; }

  /// Keeps the position of `stream`.
  void keep(const PositionedDataset& stream);

 private:
  CheckpointHistory& history_;
  const std::size_t stream_;
  CheckpointInterval interval_;
};

}  // namespace energon
