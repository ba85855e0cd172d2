// Settings of a loader. None of them changes the sample order, except those of WorkerConfig.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "energon/order/worker_config.h"

namespace energon {

/// What happens when a logical shard reaches the end of its epoch before the others of its rank.
enum class EpochPolicy : std::uint8_t {
  /// It waits; next() reports the end once all have reached it. Nothing of an epoch is seen twice
  /// before all of it was seen once.
  kStrict,
  /// The same, but next() does not report the end and goes on with the next epoch. For data of
  /// which not even one batch comes, it does.
  kLoop,
};

struct LoaderOptions {
  /// Rank, world size, workers, logical shards and seed offset. Changes the order.
  WorkerConfig worker_config = {};

  EpochPolicy epoch_policy = EpochPolicy::kStrict;

  /// Finished batches that each worker may be ahead. From 1 to 1,024.
  int prefetch_factor = 2;

  /// A worker stores its state every so many batches; a save returns the newest stored one and the
  /// number of batches to skip. 0: after the first batch of each epoch only. Absent: after each
  /// batch, or less often where batches are small or the state is large, so that storing it costs
  /// about an eighth of the bytes moved.
  std::optional<std::int64_t> checkpoint_every_batches = std::nullopt;

  /// States that each worker keeps of each of its logical shards; at least prefetch_factor + 1.
  /// Absent: that many.
  std::optional<int> n_checkpoints = std::nullopt;

  /// Largest state a worker can keep; a shuffle buffer needs at most 16 bytes a sample, usually 4
  /// to 6. Only what is used costs memory.
  std::uint64_t checkpoint_slot_bytes = std::uint64_t{64} << 20;

  /// A wait for a worker that makes no progress for so long ends in an Error (kTimeout). The
  /// largest value is no limit.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);

  /// Shared memory that the batches of one worker may take: those in flight and those the trainer
  /// still holds. Not above the machine's memory; less where the limit of address space (ulimit -v)
  /// leaves no room for it, as a multiple of it is reserved.
  std::uint64_t arena_limit_bytes = std::uint64_t{2} << 30;

  /// Where the parent and the workers log what they deliver (energon/stage/debug_log.h), such as
  /// "log-{worker_id}.jsonl". Empty: no log. A log costs a system call a batch.
  std::string debug_log_path = {};

  /// Where the parent appends a line for each sample or shard that an error policy left out
  /// (docs/formats/quarantine.md); made with the first one. Empty: nowhere. Ranks may share it.
  std::string quarantine_file = {};
};

/// Throws Error (kInvalidArgument) that names option, value and range.
void validate(const LoaderOptions& options);

}  // namespace energon
