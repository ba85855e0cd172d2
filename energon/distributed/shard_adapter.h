// Each process reads its own share: the batches of a source, with a look at the end.
//
// The source delivers this rank's share already (WorkerConfig of a loader, ShardRule of an indexed
// source). The adapter adds what a training loop over several ranks needs: it knows the last batch
// as such, and it can make all ranks end together, so that no rank waits in an all-reduce for one
// that has no more data.
//
// Ranks that end together meet once an epoch, in its first next(), and nowhere else. So what fails
// on one rank in the middle of an epoch is thrown there alone; the others go on to the end of that
// epoch, and learn it at once in the meeting that follows: in their next next() and in that of the
// rank that failed. A rank that fails and does not call next() again should end its process or its
// Comm: then the meeting names it as gone. If it does neither, the others wait for the Comm's
// timeout.

#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/distributed/adapter.h"
#include "energon/distributed/comm.h"
#include "energon/distributed/first_batches.h"
#include "energon/distributed/look_ahead.h"

namespace energon {

struct ShardOptions {
  /// All ranks get as many batches as the one with the most: the others repeat their first ones.
  bool even_batches = false;
  /// All ranks get as many batches as the one with the fewest. Goes before even_batches.
  bool drop_last = false;
  /// For even_batches and drop_last, which need it; borrowed, must outlive the adapter. The first
  /// next() of an epoch, and the first after a restore, is then a call that all ranks make.
  Comm* comm = nullptr;
  /// Where to stand while being iterated; borrowed, must outlive the adapter. Null: nowhere.
  LoaderRegistry* registry = nullptr;
};

/// For one thread at a time. Constructing it draws nothing and starts nothing.
class ShardAdapter final : public Adapter {
 public:
  /// Takes part in `source`, which is driven by nobody else while this is. Throws Error
  /// (kInvalidArgument).
  explicit ShardAdapter(std::shared_ptr<BatchSource> source, const ShardOptions& options = {});

  /// Throws Error of the source and of the Comm. If the ranks are to end together, the first call
  /// of an epoch throws on every rank at once what fails on one, or failed on one in the epoch
  /// before; kInvalidArgument if one does not know its number of batches, or has none to repeat;
  /// kMismatch with the differences if sources have not the same in common
  /// (BatchSource::common_settings()). After an error within an epoch every further call is such a
  /// meeting of all ranks, in which all throw it, until a state is restored.
  std::optional<Sample> next() override;

  /// After the last batch of an epoch it is the position of the end: who continues from there gets
  /// the whole next epoch. May draw the next batch to know.
  State save_state() override;
  void restore_state(const State& state) override;

  void stop() override { source_->stop(); }
  std::vector<std::string> warnings() const override { return source_->warnings(); }

  /// This rank's batches of one epoch; with even_batches or drop_last, once an epoch has begun,
  /// what all ranks get.
  std::optional<std::int64_t> size() override;
  std::int64_t skip(std::int64_t count) override;
  std::int64_t epoch() const override { return epoch_; }
  void set_epoch(std::int64_t epoch) override;
  std::optional<std::int64_t> remainder() const override { return source_->remainder(); }
  Config common_settings() override;
  Sample restore_sample(const RestoreKey& key) override { return source_->restore_sample(key); }
  bool end_of_dataloader() override;
  void end() override { registration_.reset(); }

 private:
  bool together() const { return options_.even_batches || options_.drop_last; }
  Config settings() const;
  void begin();
  void agree_on_size();
  std::optional<Sample> next_together();
  std::optional<Sample> finish();
  void reach_end_of_source();

  const std::shared_ptr<BatchSource> source_;
  const ShardOptions options_;
  LookAhead<BatchSource> ahead_;
  Registration registration_;

  bool begun_ = false;                  // this epoch, by this object
  std::optional<std::int64_t> target_;  // batches that all ranks get
  std::int64_t own_ = 0;                // batches of the source, if there is a target
  std::exception_ptr failure_;          // thrown in this epoch, if there is a target
  std::exception_ptr end_failure_;      // met after the last batch, not thrown yet

  // Saved state.
  std::int64_t epoch_ = 0;
  std::int64_t handed_out_ = 0;  // in this epoch
  bool source_ended_ = false;    // in this epoch; its state is that of the end
  FirstBatches first_;           // if even_batches
};

}  // namespace energon
