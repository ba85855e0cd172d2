// The index batches that one of several processes reads: whole batches in turn, or an equal part of
// each batch.
//
// Whole batches (the default): process p gets batch p of each round of `processes` batches, once
// the round is known to be complete. An incomplete round at the end is dropped, filled up from the
// first round, or handed out as it is. Split: each batch is cut into equal parts. The rules are
// those of accelerate's BatchSamplerShard, for constant and variable batch sizes. Pure logic: reads
// no data.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace energon {

struct ShardRule {
  int processes = 1;
  int process = 0;  ///< in [0, processes)
  /// Indexes in a full batch; only the last batch may have fewer. Absent: batches of any size.
  std::optional<std::int64_t> batch_size = std::nullopt;
  /// Cut each batch into equal parts instead of dealing whole ones; batch_size must be set and a
  /// multiple of `processes`.
  bool split_batches = false;
  /// Fill up at the end, from the first round, so that every process gets the same number of full
  /// batches. Off: processes may get fewer, or smaller ones.
  bool even_batches = true;
  /// Leave out what does not fill a round (split: a batch) at the end. Takes precedence over
  /// even_batches.
  bool drop_last = false;
};

/// Throws Error (kInvalidArgument), naming field and value.
void validate(const ShardRule& rule);

using Indexes = std::vector<std::int64_t>;

/// Not thread-safe.
class BatchSamplerShard {
 public:
  /// Returns the batches of the whole job, the same on every process; nothing at the end. The
  /// number of batches need not be known.
  using NextBatch = std::function<std::optional<Indexes>()>;

  /// Draws nothing yet. Throws Error (kInvalidArgument).
  BatchSamplerShard(NextBatch next_batch, const ShardRule& rule);

  /// The next batch of this process; nothing at the end and from then on. Throws Error
  /// (kInvalidArgument) for a batch that is longer than batch_size, or shorter and not the last.
  std::optional<Indexes> next();

 private:
  std::optional<Indexes> draw();
  std::optional<Indexes> next_whole();
  std::optional<Indexes> next_part();
  std::optional<Indexes> tail_of_round(std::vector<Indexes> round);
  std::optional<Indexes> tail_of_split(Indexes batch);
  bool full(const Indexes& batch) const;

  const NextBatch next_batch_;
  const ShardRule rule_;

  std::vector<Indexes> first_round_;  // of the job; split: the first batch
  bool saw_short_batch_ = false;
  bool ended_ = false;
};

/// The number of batches that this process gets out of `batches`. The last of them has `last_size`
/// indexes (ignored with variable batch sizes). Throws Error (kInvalidArgument).
std::int64_t shard_size(std::int64_t batches, std::int64_t last_size, const ShardRule& rule);

}  // namespace energon
