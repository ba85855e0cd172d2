// Sends the batches and other messages of a worker's main thread to the parent, and stores the
// checkpoints that belong to them.
//
// Note [Kept checkpoints]: for any number of batches that the parent has taken, the position is the
// newest checkpoint in the ring of the logical shard that is not later
// (WorkerGroup::newest_checkpoint()). So a checkpoint is stored before its batch becomes visible,
// and is overwritten only after the parent has taken all batches before the next one. If a
// checkpoint is due and the ring is full of needed ones, the worker waits for the parent, unless
// the checkpoint only shortens a replay (CheckpointDue::kIfRoom).

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "energon/checkpoint/positioned_dataset.h"
#include "energon/process/wait.h"
#include "energon/process/worker_channel.h"
#include "energon/worker/slot_allocator.h"
#include "energon/worker/statistics_block.h"
#include "energon/worker/worker_checkpoints.h"
#include "io/error.h"

namespace energon {

/// The batches that a worker has sent and the parent has not taken yet. Counts in units of the
/// sample ring, of which a batch is one. Not thread-safe.
class SentBatches {
 public:
  /// Records that unit number `unit` is batch `index` of logical shard `local_index`. Both grow
  /// from call to call.
  void add(std::uint64_t unit, std::size_t local_index, std::uint64_t index);

  /// Forgets the first `count` units: the parent has taken them.
  void taken(std::uint64_t count);

  /// Number of units, counted from the first one, that the parent must take to have the first
  /// `count` batches of logical shard `local_index`; 0 if it already has them.
  std::uint64_t units_until(std::size_t local_index, std::uint64_t count) const;

  /// Number of batches not forgotten.
  std::size_t size() const { return sent_.size(); }

 private:
  struct Sent {
    std::uint64_t unit;
    std::size_t local_index;
    std::uint64_t index;
  };

  std::deque<Sent> sent_;  // oldest first
};

/// Used by the worker's main thread. Functions return false if the channel was closed.
class BatchSender {
 public:
  /// All arguments must outlive the sender, as must the descriptors of `wait`.
  BatchSender(WorkerEndpoint& channel, WorkerCheckpoints& checkpoints, LoaderMonitor& monitor,
              const Wait& wait)
      : channel_(channel), checkpoints_(checkpoints), monitor_(monitor), wait_(wait) {}

  /// Sends `batch`, the last one that `pipeline` made for logical shard `local_index`
  /// of the rank. Stores a checkpoint first, if one is due. `batch_info` has what the
  /// pipeline does not know.
  bool send_batch(PackedSample batch, std::size_t local_index, const PositionedDataset& pipeline,
                  ProducedBatch batch_info);

  /// Reports that logical shard `local_index` is at the end of its epoch.
  bool send_epoch_end(std::size_t local_index, const PositionedDataset& pipeline);

  /// Sends the failures that policies have allowed since the last call.
  bool send_reports();

  /// Sends the pending reports, then the error that ended the worker's work.
  void send_failure(const Error& error);

 private:
  std::optional<std::span<std::byte>> begin(std::size_t size);
  std::uint64_t units_before_slot(std::size_t local_index);
  bool wait_for_checkpoint_slot(std::size_t local_index);
  bool has_new_drops();

  WorkerEndpoint& channel_;
  WorkerCheckpoints& checkpoints_;
  LoaderMonitor& monitor_;
  const Wait wait_;
  SentBatches sent_;
  std::uint64_t drops_ = 0;  // before the last message about a logical shard
};

}  // namespace energon
