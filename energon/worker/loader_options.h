// Settings of a loader. Only those of WorkerConfig change the sample order.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "energon/order/worker_config.h"
#include "energon/process/fork_hooks.h"

namespace energon {

/// What happens when a logical shard reaches the end of its epoch before the others of its rank.
enum class EpochPolicy : std::uint8_t {
  /// It waits, and next() reports the end once all have reached it. No sample of an epoch is seen
  /// twice before all of them were seen once.
  kStrict,
  /// The same, but next() continues with the next epoch without reporting the end. It reports the
  /// end only if the epoch had no batch at all, and throws Error (kCorruptData) if that is because
  /// all of its samples failed and were left out.
  kLoop,
};

struct LoaderOptions {
  /// Rank, world size, workers, logical shards and seed offset. Changes the order.
  WorkerConfig worker_config = {};

  EpochPolicy epoch_policy = EpochPolicy::kStrict;

  /// Maximum number of finished batches that each worker may be ahead, from 1 to 1,024. Absent: as
  /// many as `prefetch_bytes` allows.
  std::optional<int> prefetch_factor = std::nullopt;

  /// Bytes of finished batches that each worker may be ahead if `prefetch_factor` is absent: the
  /// worker begins no further batch once it has so many, but it is always 2 batches ahead, and
  /// never more than 256. At least 1.
  std::uint64_t prefetch_bytes = std::uint64_t{4} << 20;

  /// Number of batches after which a worker stores its state. A save returns the newest stored
  /// state and the number of batches to skip. 0: only after the first batch of each epoch. Absent:
  /// after each batch of 64 KiB or more, after up to 32 smaller ones, or less often if the state is
  /// large, so that storing it costs about an eighth of the bytes moved. Where skipping batches
  /// means to make them again (filters, packing, groups), also after 100 ms of work, but so that
  /// storing takes at most a twentieth of the time. Always after batches were skipped at the start.
  std::optional<std::int64_t> checkpoint_every_batches = std::nullopt;

  /// Number of states that each worker keeps per logical shard, at least 2 and, if that is set,
  /// prefetch_factor + 1. A worker that would overwrite a state which a save may still need waits
  /// for the trainer. Absent: prefetch_factor + 1, or enough that it seldom waits. Where address
  /// space is limited 2 are kept.
  std::optional<int> n_checkpoints = std::nullopt;

  /// Number of delivered batches of the rank that SavableDataLoader::state_at() and rewind() reach
  /// back, from 0 to 1,000,000. For this the loader keeps older states of each logical shard, at
  /// most 4,096 of each and `checkpoint_history_bytes` in all; if these limits are smaller, it
  /// reaches back less far. Where address space is limited workers keep no older states.
  std::int64_t checkpoint_history = 100;

  /// Maximum size of the states that are kept only for `checkpoint_history`, in bytes. Each logical
  /// shard of the rank has an equal share.
  std::uint64_t checkpoint_history_bytes = std::uint64_t{64} << 20;

  /// Maximum size of a state that a worker can keep. A shuffle buffer needs at most 16 bytes per
  /// sample, usually 4 to 6. Only used bytes take memory.
  std::uint64_t checkpoint_slot_bytes = std::uint64_t{64} << 20;

  /// A wait for a worker that makes no progress for this long ends with Error (kTimeout). Progress
  /// is a batch, a call of a function that begins, or bytes read from a file. The largest value
  /// means no limit.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);

  /// Maximum shared memory for the batches of one worker: those in flight and those that the
  /// trainer still holds. Reduced to the machine's memory if larger. Also reduced if the limit of
  /// address space (ulimit -v) leaves no room, because the arena reserves a multiple of this value.
  std::uint64_t arena_limit_bytes = std::uint64_t{2} << 30;

  /// How long a worker whose arena is full waits for memory while the trainer itself waits for its
  /// next batch, so that only another thread could give some back. Then the run ends with Error
  /// (kResourceExhausted). At most half of `timeout` counts.
  std::chrono::milliseconds starvation_limit = std::chrono::seconds(5);

  /// Path of the log of what the parent and the workers deliver (energon/stage/debug_log.h), such
  /// as "log-{worker_id}.jsonl". Empty: no log. A log costs one system call per batch.
  std::string debug_log_path = {};

  /// File to which the parent appends a line for each sample or shard that was left out under an
  /// error policy (docs/formats/quarantine.md). Created with the first line. Empty: no file. Ranks
  /// may share it.
  std::string quarantine_file = {};

  /// Called around both forks on the way to a worker: what an embedded interpreter needs.
  ForkHooks fork_hooks = {};

  /// Called by the thread that is in a call of the loader: while it waits for a worker every 100 ms
  /// and when the wait ends; without workers between two calls of functions of the pipeline. What
  /// it throws, of any type, leaves the call (docs/processes.md): nothing is lost, the next next()
  /// goes on. It must not call the loader, but for close(). Not called in workers. Empty: no check.
  std::function<void()> wait_check = nullptr;
};

/// Throws Error (kInvalidArgument) that names the option, its value and its range.
void validate(const LoaderOptions& options);

}  // namespace energon
