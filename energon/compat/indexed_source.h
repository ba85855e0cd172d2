// Batches of a dataset that gives access to samples by index.
//
// The order is a function of (size, seed, epoch); a position is two integers. Skipping only
// advances the index and reads no data. With a ShardRule, each process fetches only its own
// batches.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "energon/compat/batch_sampler_shard.h"
#include "energon/loader/batch_source.h"

namespace energon {

struct IndexedOptions {
  /// Number of samples in the dataset; below 2^32.
  std::int64_t samples = 0;
  /// Samples in a batch of the whole job's sampler. At least 1.
  std::int64_t batch_size = 1;
  /// Leave out the last batch if it is smaller, and then batches that do not fill a round of
  /// processes.
  bool drop_last = false;
  /// Seed of a random order that changes with each epoch; absent: index order. Must be the same on
  /// all ranks (shared_seed()).
  std::optional<std::uint32_t> shuffle_seed = std::nullopt;
  /// Number of processes, and the index of this one.
  int processes = 1;
  int process = 0;
  /// As in ShardRule. With a single process, nothing is filled up.
  bool split_batches = false;
  bool even_batches = true;
};

/// Makes the batch of these samples, in this order. next() rethrows what it throws.
using FetchFunction = std::function<Sample(std::span<const std::int64_t> indexes)>;

/// For one thread at a time.
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
  /// For batches that this source handed out; their keys contain the indexes.
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

}  // namespace energon
