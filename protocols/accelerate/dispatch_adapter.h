// One process reads for all ranks: rank 0 draws a group of batches and sends each rank its part.
//
// A group is one batch for each rank or, with split_batches, one batch that is cut into parts. A
// rank receives its part as structure, then data; nothing else is sent. Rank 0 reads one group
// ahead, so each part includes whether it is the last. If the last group cannot be divided evenly
// among the ranks, it is padded with the first samples of the epoch. Earlier groups are never
// padded: if their batches differ in size, each rank gets one of them unchanged.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/distributed/comm.h"
#include "energon/loader/batch_source.h"
#include "energon/sample/buffer_allocator.h"
#include "protocols/accelerate/adapter.h"
#include "protocols/accelerate/batch_slices.h"
#include "protocols/accelerate/look_ahead.h"

namespace energon {

struct DispatchPart;

struct DispatchOptions {
  /// Cut each batch of the source into a part for each rank, instead of giving each rank a whole
  /// batch.
  bool split_batches = false;
  /// Drop a last group that is smaller than the first, instead of padding it.
  bool drop_last = false;
};

/// Draws the batches of a source in groups, one group for each step of all ranks. All groups of an
/// epoch except the last have the same number of batches. The first one determines the number of
/// samples of a full group. For one thread at a time.
class BatchGroups {
 public:
  /// Borrows `source`.
  BatchGroups(BatchSource& source, std::int64_t batches, bool drop_last);

  struct Group {
    std::vector<Sample> batches;
    std::int64_t samples = 0;
  };

  /// The next group; nullopt at the end of the epoch. Throws Error of the source; kInvalidArgument
  /// if a batch has no samples or the batches of a group cannot be joined.
  std::optional<Group> next();
  SavableDataLoaderState save_state_rank() { return ahead_.state(); }
  /// Like the source's skip(), but counts groups. Requires: that many groups before the last.
  std::int64_t skip(std::int64_t count) { return ahead_.skip(count * batches_) / batches_; }

  /// Batches left in this epoch, including drawn ones; nullopt if not known.
  std::optional<std::int64_t> batches_left() const;

  std::int64_t batches_in_group() const { return batches_; }
  std::int64_t full_samples() const { return full_samples_; }
  void restored(std::int64_t full_samples);

 private:
  const BatchSource& source_;
  const std::int64_t batches_;
  const bool drop_last_;
  LookAhead<BatchSource> ahead_;
  std::int64_t full_samples_ = 0;  // of the epoch's first group; 0 before it
};

/// For one thread at a time. All ranks must call next() and skip() together; where rank 0 skips,
/// next() of another rank follows it to the batch after that. The constructor draws nothing and
/// starts nothing.
class DispatchAdapter final : public Adapter {
 public:
  /// Shares ownership of `source` on rank 0; on other ranks it must be null. Borrows `comm`, which
  /// must outlive this. Throws Error (kInvalidArgument).
  DispatchAdapter(std::shared_ptr<BatchSource> source, Comm& comm,
                  const DispatchOptions& options = {});

  /// Throws Error of the Comm. A failure on rank 0 is thrown on every rank in the same call: what
  /// the source throws; kInvalidArgument if batches cannot be joined or cut.
  std::optional<Sample> next() override;

  /// On rank 0, the position of the source after the last delivered group, which is the position of
  /// the whole job. On other ranks, only the number of batches received, which no job needs: they
  /// follow rank 0. A group that could not be sent because a rank died does not count as delivered.
  /// After the last batch of an epoch, the state is the position at its end.
  SavableDataLoaderState save_state_rank() override;
  /// At any time; ends the workers of the source. Also throws Error (kMismatch) if rank 0 gets the
  /// state of another rank, if another rank gets the state of rank 0, or if the state was saved
  /// with other options or, with drop_last, another number of ranks: the groups would be different.
  void restore_state_rank(const SavableDataLoaderState& state) override;
  Config state_config() override;
  /// True on rank 0.
  bool keeps_position() const override { return source_ != nullptr; }
  /// These two only act on rank 0, which has the source.
  void stop() override;
  std::vector<std::string> warnings() const override;

  /// Number of batches that each rank gets in an epoch. Known only on rank 0; exact only if all
  /// batches have the same size.
  std::optional<std::int64_t> size() const override;
  /// Sends no sample data. Rank 0 reads the last group of an epoch and the first one, which may be
  /// needed to pad the last. The source skips the groups between them if it knows its size.
  std::int64_t skip(std::int64_t count) override;
  std::int64_t epoch() const override { return epoch_; }
  void set_epoch(std::int64_t epoch) override;
  std::optional<std::int64_t> remainder() const override { return remainder_; }
  bool end_of_dataloader() override { return last_; }

 private:
  Config settings() const;
  std::optional<DispatchPart> advance(std::int64_t to_skip);
  std::vector<DispatchPart> deal_or_fail(std::int64_t to_skip);
  std::vector<DispatchPart> deal(std::int64_t to_skip);
  std::int64_t groups_to_skip_unread(std::int64_t count);
  void draw_group();
  std::vector<Sample> cut(const BatchGroups::Group& group, bool last);
  void take_back_group();

  const std::shared_ptr<BatchSource> source_;  // null except on rank 0
  Comm& comm_;
  const DispatchOptions options_;
  std::unique_ptr<BatchGroups> groups_;  // on rank 0
  std::unique_ptr<LookAhead<BatchGroups>> ahead_;
  HeapBufferPool memory_;
  std::optional<BatchGroups::Group> dealing_;  // drawn, but not yet sent to all ranks
  std::optional<FirstBatches> first_before_;   // first_ without batches of dealing_, if any

  bool last_ = false;  // the last delivered batch ends the epoch
  std::optional<std::int64_t> remainder_;

  // Saved state.
  std::int64_t epoch_ = 0;
  std::int64_t handed_out_ = 0;  // in this epoch
  FirstBatches first_;           // on rank 0
};

}  // namespace energon
