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
  /// It waits for the others; next() reports the end once all have reached it. Every sample of an
  /// epoch is delivered once before any is delivered again.
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

  /// Maximum number of finished batches that each worker may be ahead, from 1 to 1,024. Unset means
  /// as many as `prefetch_bytes` allows.
  std::optional<int> prefetch_factor = std::nullopt;

  /// Bytes of finished batches that each worker may be ahead if `prefetch_factor` is unset. At this
  /// size the worker starts no further batch, but it may always be 2 batches ahead, and never more
  /// than 256. At least 1.
  std::uint64_t prefetch_bytes = std::uint64_t{4} << 20;

  /// Number of batches after which a worker stores its state. A save returns the newest stored
  /// state and the number of batches to skip. 0 means only after the first batch of each epoch.
  /// Unset means after each batch of 64 KiB or more, after up to 32 smaller ones, or less often if
  /// the state is large, so that storing it costs about an eighth of the bytes moved. Where
  /// skipping batches means computing them again (filters, sort pools, packing, groups), also after
  /// 100 ms of work, as long as storing takes at most a twentieth of the time. A worker that
  /// skipped batches at its start stores its state in any case.
  std::optional<std::int64_t> checkpoint_every_batches = std::nullopt;

  /// Number of states that each worker keeps per logical shard, at least 2 and at least
  /// prefetch_factor + 1 if that is set. A worker that would overwrite a state which a save may
  /// still need waits for the trainer. Unset means prefetch_factor + 1, or enough that it rarely
  /// waits. With limited address space, 2 are kept.
  std::optional<int> n_checkpoints = std::nullopt;

  /// Number of delivered batches that SavableDataLoader::state_at() and rewind() reach back, from 0
  /// to 1,000,000. The loader keeps older states of each logical shard for this, at most 4,096 of
  /// each and `checkpoint_history_bytes` in total, which may reduce the reach. With limited address
  /// space, workers keep no older states.
  std::int64_t checkpoint_history = 100;

  /// Maximum size of the states that are kept only for `checkpoint_history`, in bytes. Each logical
  /// shard of the rank has an equal share.
  std::uint64_t checkpoint_history_bytes = std::uint64_t{64} << 20;

  /// Maximum size of a state that a worker can keep. A shuffle buffer needs at most 16 bytes per
  /// sample, usually 4 to 6. Only used bytes take memory.
  std::uint64_t checkpoint_slot_bytes = std::uint64_t{64} << 20;

  /// A wait for a worker without progress for this long ends with Error (kTimeout). Progress is a
  /// batch, the start of a call of a user function, or bytes read from a file. The largest value
  /// means no limit.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);

  /// Maximum shared memory for the batches of one worker: those in flight and those that the
  /// trainer still holds. Reduced to the machine's memory if larger. Also reduced if the limit of
  /// address space (ulimit -v) leaves no room, because the arena reserves a multiple of this value.
  std::uint64_t arena_limit_bytes = std::uint64_t{2} << 30;

  /// How long a worker with a full arena waits for memory while the trainer itself waits for its
  /// next batch, so that only another thread could free some. Then the run ends with Error
  /// (kResourceExhausted). Capped at half of `timeout`.
  std::chrono::milliseconds starvation_limit = std::chrono::seconds(5);

  /// Path of the log of what the parent and the workers deliver (energon/stage/debug_log.h), such
  /// as "log-{worker_id}.jsonl". Empty means no log. A log costs one system call per batch.
  std::string debug_log_path = {};

  /// File to which the parent appends a line for each sample or shard that was left out under an
  /// error policy (docs/formats/quarantine.md). Created with the first line; empty means no file.
  /// Ranks may share it.
  std::string quarantine_file = {};

  /// Called around both forks on the way to a worker: what an embedded interpreter needs.
  ForkHooks fork_hooks = {};

  /// A check that can interrupt calls of the loader, called by the calling thread: every 100 ms
  /// while it waits for a worker and when the wait ends; without workers, between two calls of
  /// functions of the pipeline. An exception of any type leaves the call (docs/processes.md);
  /// nothing is lost, and the next next() continues. Must not call the loader except for close().
  /// Not called in workers. Empty means no check.
  std::function<void()> wait_check = nullptr;
};

/// Throws Error (kInvalidArgument) that names the option, its value and its range.
void validate(const LoaderOptions& options);

}  // namespace energon
