// The messages of a worker's main thread to the parent, and the checkpoints that go with them.
//
// Note [Kept checkpoints]: the parent finds the position after any number of batches that it has
// taken in the checkpoint ring of the logical shard, as the newest checkpoint that is not later
// (WorkerGroup::newest_checkpoint()). So a checkpoint is stored before the batch that it includes
// can be seen, and is overwritten only when the parent has taken all batches before the next one. A
// worker that is due to store a checkpoint and finds its ring full of needed ones waits for the
// parent, unless the checkpoint only shortens a replay (CheckpointDue::kIfRoom).

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

  /// How many units the parent has to take until it has the first `count` batches of logical shard
  /// `local_index`, in units since the first; 0 if it has them already.
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

/// Used by the worker's main thread. Functions that return false: the channel was closed.
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

  /// Says that logical shard `local_index` is at the end of its epoch.
  bool send_epoch_end(std::size_t local_index, const PositionedDataset& pipeline);

  /// Sends the failures that policies have allowed since the last call.
  bool send_reports();

  /// Sends what the worker failed with, after the reports.
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
