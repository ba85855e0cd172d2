// Batches of a dataset whose samples can be had by their number.
//
// The order is a function of (size, seed, epoch); a position is two integers, and skipping reads
// nothing, because it goes over the numbers. With a ShardRule each process fetches its own batches
// only.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "energon/distributed/batch_sampler_shard.h"
#include "energon/distributed/batch_source.h"

namespace energon {

struct IndexedOptions {
  /// Samples of the dataset; below 2^32.
  std::int64_t samples = 0;
  /// Samples in a batch of the whole job's sampler. At least 1.
  std::int64_t batch_size = 1;
  /// Leave out the last batch if it is smaller; and then what does not fill a round of processes.
  bool drop_last = false;
  /// A random order that is new in each epoch; absent: by number. Must be the same on all ranks
  /// (shared_seed()).
  std::optional<std::uint32_t> shuffle_seed = std::nullopt;
  /// Which of several processes this is.
  int processes = 1;
  int process = 0;
  /// As in ShardRule. A process that is alone has nobody to be even with: nothing is filled up.
  bool split_batches = false;
  bool even_batches = true;
};

/// Makes the batch of these samples, in this order. What it throws, next() throws.
using FetchFunction = std::function<Sample(std::span<const std::int64_t> indexes)>;

/// For one thread at a time.
class IndexedSource final : public BatchSource {
 public:
  /// Draws no random number and fetches nothing. Throws Error (kInvalidArgument).
  IndexedSource(const IndexedOptions& options, FetchFunction fetch);

  std::optional<Sample> next() override;
  State save_state() override;
  /// Throws Error (kMismatch) with all differences if the state was saved with other options, but
  /// for `process`.
  void restore_state(const State& state) override;
  std::optional<std::int64_t> size() override;
  /// Fetches nothing.
  std::int64_t skip(std::int64_t count) override;
  std::int64_t epoch() const override { return epoch_; }
  void set_epoch(std::int64_t epoch) override;
  std::optional<std::int64_t> remainder() const override;
  /// All options but `process`; null for a process that is alone, whose data is its own.
  Config common_settings() override;
  /// For batches that it handed out: their keys have the numbers.
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
