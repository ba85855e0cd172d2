// An adapter for ranks that each read their own share; it detects the last batch.
//
// The source already delivers only this rank's share (WorkerConfig of a loader, ShardRule of an
// indexed source). The adapter adds what a training loop over several ranks needs: it detects the
// last batch, and can make all ranks end together, so that no rank waits in an all-reduce for a
// rank without data.
//
// Ranks that end together communicate once per epoch, in the first next() of the epoch, and at no
// other time unless one has failed. A failure in the middle of an epoch is therefore thrown on the
// failing rank only. The other ranks finish that epoch and get the error in their first next() of
// the following epoch, which meets the next call on the failing rank. A rank that fails and does
// not call next() again should end its process or its Comm, so that the others get an error that
// names this rank. Otherwise the others wait for the Comm's timeout.

#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "energon/distributed/comm.h"
#include "protocols/accelerate/adapter.h"
#include "protocols/accelerate/batch_slices.h"
#include "protocols/accelerate/look_ahead.h"

namespace energon {

struct ShardOptions {
  /// All ranks get as many batches as the rank with the most; ranks with fewer batches repeat their
  /// first ones.
  bool even_batches = false;
  /// All ranks get as many batches as the rank with the fewest. Takes precedence over even_batches.
  bool drop_last = false;
  /// Needed for even_batches and drop_last; borrowed, must outlive the adapter. With either option,
  /// all ranks must make the first next() of an epoch, and the first after a restore, together.
  Comm* comm = nullptr;
};

/// For one thread at a time. The constructor draws nothing and starts nothing.
class ShardAdapter final : public ForwardingAdapter<BatchSource> {
 public:
  /// Shares ownership of `source`; nothing else may drive the source meanwhile. Throws Error
  /// (kInvalidArgument).
  explicit ShardAdapter(std::shared_ptr<BatchSource> source, const ShardOptions& options = {});

  /// Throws Error of the source and of the Comm. If the ranks end together, the first call of an
  /// epoch throws the same Error on every rank: a failure of any rank in this call or in the epoch
  /// before; kInvalidArgument if a rank does not know its number of batches or has none to repeat;
  /// kMismatch with the differences if the sources' common_settings() differ. After an error within
  /// an epoch, every further call also communicates with all ranks, and all throw that error until
  /// a state is restored.
  std::optional<Sample> next() override;

  /// After the last batch of an epoch the state is the position at its end: a run that continues
  /// from there gets the whole next epoch. May draw the next batch to find out.
  SavableDataLoaderState save_state_rank() override;
  /// At any time; ends the workers of the source.
  void restore_state_rank(const SavableDataLoaderState& state) override;

  /// Number of this rank's batches in one epoch. With even_batches or drop_last, once an epoch has
  /// begun, the number that all ranks get.
  std::optional<std::int64_t> size() const override;
  std::optional<std::int64_t> batches_left() const override;
  std::int64_t skip(std::int64_t count) override;
  std::int64_t epoch() const override { return epoch_; }
  void set_epoch(std::int64_t epoch) override;
  bool end_of_dataloader() override;

 private:
  bool together() const { return options_.even_batches || options_.drop_last; }
  Config settings() const;
  void begin();
  std::optional<std::int64_t> batches_of_source() const;
  void agree_on_size();
  std::optional<Sample> next_together();
  std::optional<Sample> next_of_source();
  Sample next_repeated();
  std::optional<Sample> finish();
  void reach_end_of_source();

  const ShardOptions options_;
  LookAhead<BatchSource> ahead_;

  bool begun_ = false;                  // this object has begun this epoch
  std::optional<std::int64_t> target_;  // batches that all ranks get
  std::int64_t rank_batches_ = 0;       // batches from the source, if there is a target
  std::exception_ptr failure_;          // last one thrown, if there is a target
  std::exception_ptr end_failure_;      // found after the last batch, not yet thrown

  // Saved state.
  std::int64_t epoch_ = 0;
  std::int64_t handed_out_ = 0;  // in this epoch
  bool source_ended_ = false;    // in this epoch; its position is the end
  std::int64_t repeated_ = 0;    // of handed_out_
  FirstBatches first_;           // if even_batches
};

}  // namespace energon
