// The batches of indexes that one process of several reads: whole batches in turn, or an equal part
// of each.
//
// Whole batches (the default): process p gets batch p of each round of `processes` batches, once it
// is known that the round is complete; what is left at the end is dropped, filled up from the first
// round, or handed out as it is. Split: each batch is cut into equal parts. It is accelerate's
// BatchSamplerShard, for constant and for variable batch sizes. Pure logic: nothing is read.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace energon {

struct ShardRule {
  int processes = 1;
  int process = 0;  ///< in [0, processes)
  /// Indexes in a full batch, of which only the last may have fewer; absent: batches of any sizes.
  std::optional<std::int64_t> batch_size = std::nullopt;
  /// Cut each batch into equal parts instead of dealing whole ones; batch_size must be there and a
  /// multiple of `processes`.
  bool split_batches = false;
  /// Fill up at the end, from the first round, so that every process gets the same number of full
  /// batches. Off: processes may get fewer, or smaller ones.
  bool even_batches = true;
  /// Leave out what does not fill a round (split: a batch) at the end. Goes before even_batches.
  bool drop_last = false;
};

/// Throws Error (kInvalidArgument) that names field and value.
void validate(const ShardRule& rule);

using Indexes = std::vector<std::int64_t>;

/// Not thread-safe.
class BatchSamplerShard {
 public:
  /// Gives the batches of the whole job, the same on every process; nothing at the end. The number
  /// of batches need not be known.
  using NextBatch = std::function<std::optional<Indexes>()>;

  /// Draws nothing yet. Throws Error (kInvalidArgument).
  BatchSamplerShard(NextBatch next_batch, const ShardRule& rule);

  /// The next batch of this process; nothing at the end, which stays the end. Throws Error
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

/// How many batches this process gets of `batches`, the last of which has `last_size` indexes (with
/// variable sizes it does not matter). Throws Error (kInvalidArgument).
std::int64_t shard_size(std::int64_t batches, std::int64_t last_size, const ShardRule& rule);

}  // namespace energon
