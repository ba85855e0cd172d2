// Samples by index: a rule that divides them among processes, and a source of their batches.
//
// The rules for processes are accelerate's; torchdata and Cerebras call this a map-style dataset.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "energon/loader/batch_source.h"

namespace energon {

class Comm;

/// Which batches of indexes one of several processes reads.
struct ShardRule {
  int processes = 1;
  int process = 0;  ///< in [0, processes)
  /// Indexes in a full batch; only the last batch may have fewer. Unset allows batches of any size.
  std::optional<std::int64_t> batch_size = std::nullopt;
  /// Cut each batch into equal parts instead of dealing complete batches; batch_size must be set
  /// and a multiple of `processes`.
  bool split_batches = false;
  /// Pad the end with the first round, so that every process gets the same number of full batches.
  /// If false, processes may get fewer or smaller batches.
  bool even_batches = true;
  /// Drop an incomplete round (or, if split, an incomplete batch) at the end. Takes precedence over
  /// even_batches.
  bool drop_last = false;
};

/// Throws Error (kInvalidArgument), naming field and value.
void validate(const ShardRule& rule);

using Indexes = std::vector<std::int64_t>;

/// The batches of indexes that one of several processes reads. By default, process p gets batch p
/// of each round of `processes` batches, once the round is known to be complete. An incomplete
/// round at the end is dropped, padded with the first round, or delivered unchanged. With
/// split_batches, each batch is cut into equal parts. The rules are those of accelerate's
/// BatchSamplerShard, for constant and variable batch sizes. Pure logic: reads no data. Not
/// thread-safe.
class BatchSamplerShard {
 public:
  /// Returns the batches of the whole job, the same on every process; nullopt at the end. The
  /// number of batches need not be known.
  using NextBatch = std::function<std::optional<Indexes>()>;

  /// Draws nothing yet. Throws Error (kInvalidArgument).
  BatchSamplerShard(NextBatch next_batch, const ShardRule& rule);

  /// The next batch of this process; nullopt at the end and from then on. Throws Error
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

  std::vector<Indexes> first_round_;  // of the job; if split, the first batch
  bool saw_short_batch_ = false;
  bool ended_ = false;
};

/// The number of batches that this process gets out of `batches`. The last of them has `last_size`
/// indexes (ignored with variable batch sizes). Throws Error (kInvalidArgument).
std::int64_t shard_size(std::int64_t batches, std::int64_t last_size, const ShardRule& rule);

struct IndexedOptions {
  /// Number of samples in the dataset; below 2^32.
  std::int64_t samples = 0;
  /// Samples in a batch of the whole job's sampler. At least 1.
  std::int64_t batch_size = 1;
  /// Drop the last batch if it is smaller, and then batches of an incomplete round of processes.
  bool drop_last = false;
  /// Seed of a random order that changes with each epoch; unset means index order. Must be the same
  /// on all ranks (shared_seed()).
  std::optional<std::uint32_t> shuffle_seed = std::nullopt;
  /// Number of processes, and the index of this one.
  int processes = 1;
  int process = 0;
  /// As in ShardRule. With a single process, nothing is padded.
  bool split_batches = false;
  bool even_batches = true;
};

/// Makes the batch of these samples, in this order. next() passes its exceptions through.
using FetchFunction = std::function<Sample(std::span<const std::int64_t> indexes)>;

/// Batches of a dataset that gives access to samples by index. The order is a function of (size,
/// seed, epoch); a position is two integers. Skipping only advances the index and reads no data.
/// With a ShardRule, each process fetches only its own batches. For one thread at a time.
class IndexedSource final : public BatchSource {
 public:
  /// Draws no random number and fetches nothing. Throws Error (kInvalidArgument).
  IndexedSource(const IndexedOptions& options, FetchFunction fetch);

  std::optional<Sample> next() override;
  SavableDataLoaderState save_state_rank() override;
  /// Throws Error (kMismatch) with all differences if the state was saved with other options;
  /// `process` may differ.
  void restore_state_rank(const SavableDataLoaderState& state) override;
  std::optional<std::int64_t> size() const override;
  std::optional<std::int64_t> batches_left() const override { return *size() - handed_out_; }
  /// Fetches nothing.
  std::int64_t skip(std::int64_t count) override;
  std::int64_t epoch() const override { return epoch_; }
  void set_epoch(std::int64_t epoch) override;
  std::optional<std::int64_t> remainder() const override;
  /// All options except `process`; null for a single process, which shares its data with no other.
  Config common_settings() const override;
  /// For batches that this source delivered; their keys contain the indexes.
  Sample restore_sample(const RestoreKey& key) override;

 private:
  std::optional<Indexes> next_indexes();
  void begin();
  void finish();
  Sample fetch(const Indexes& indexes, std::int64_t batch) const;
  ShardRule rule() const;
  Config settings() const;

  const IndexedOptions options_;
  const FetchFunction fetch_;
  std::unique_ptr<BatchSamplerShard> shard_;  // of this epoch; null before its first batch

  // Saved state.
  std::int64_t epoch_ = 0;
  std::int64_t handed_out_ = 0;  // in this epoch
};

/// Returns the seed of rank 0 on every rank, so that an order that all ranks share does not depend
/// on how each rank was started. All ranks call it. Throws Error of the Comm.
std::uint32_t shared_seed(Comm& comm, std::uint32_t seed);

}  // namespace energon
