// One process reads, all get their part: rank 0 draws a group of batches and deals it out.
//
// A group is one batch for each rank, or with split_batches one batch that is cut. A rank receives
// its part as structure, then data; nothing else travels. Rank 0 reads one group ahead, so that
// every rank is told with its batch whether it is the last, and a last group that the ranks do not
// divide is filled up from the first samples of the epoch. Groups before that are never filled up:
// if their batches differ in size, each rank gets one of them as it is.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/distributed/adapter.h"
#include "energon/distributed/comm.h"
#include "energon/distributed/first_batches.h"
#include "energon/distributed/look_ahead.h"
#include "energon/sample/buffer_allocator.h"
#include "io/error.h"

namespace energon {

struct DispatchOptions {
  /// Cut each batch of the source into a part for each rank, instead of giving each rank a whole
  /// one.
  bool split_batches = false;
  /// Leave out a last group that is smaller than the first, instead of filling it up.
  bool drop_last = false;
  /// Where to stand while being iterated; borrowed, must outlive the adapter. Null: nowhere.
  LoaderRegistry* registry = nullptr;
};

/// The batches of a source, in the groups that are dealt out.
class BatchGroups {
 public:
  /// Borrows `source`.
  BatchGroups(BatchSource& source, std::int64_t batches, bool drop_last);

  struct Group {
    std::vector<Sample> batches;
    std::int64_t samples = 0;
  };

  /// Nothing at the end of the epoch. Throws Error of the source, and kInvalidArgument if the
  /// batches of a group are not alike.
  std::optional<Group> next();
  State save_state() { return ahead_.state(); }
  /// As the source's skip(), in groups. Requires: that many groups before the last.
  std::int64_t skip(std::int64_t count) { return ahead_.skip(count * batches_) / batches_; }

  std::int64_t batches_in_group() const { return batches_; }
  std::int64_t full_samples() const { return full_samples_; }
  void restored(std::int64_t full_samples);

 private:
  const std::int64_t batches_;
  const bool drop_last_;
  LookAhead<BatchSource> ahead_;
  std::int64_t full_samples_ = 0;  // in the first group of the epoch; 0 before it
};

/// For one thread at a time. next() and skip() are calls that all ranks make. Constructing it draws
/// nothing and starts nothing.
class DispatchAdapter final : public Adapter {
 public:
  /// Takes part in `source` on rank 0; elsewhere it must be null. Borrows `comm`, which must
  /// outlive this. Throws Error (kInvalidArgument).
  DispatchAdapter(std::shared_ptr<BatchSource> source, Comm& comm,
                  const DispatchOptions& options = {});

  /// Throws Error of the Comm. What fails on rank 0 is thrown on every rank, in the same call: what
  /// the source throws; kInvalidArgument if batches cannot be joined or cut.
  std::optional<Sample> next() override;

  /// On rank 0 with the position of the source after the group handed out last; elsewhere only how
  /// many batches came. A group that could not be dealt out, because a rank died, was not handed
  /// out. After the last batch of an epoch it is the position of the end.
  State save_state() override;
  /// Throws also if rank 0 gets a state of another rank, or another rank that of rank 0, or if it
  /// was saved with another number of ranks or other options: a group would be another one.
  void restore_state(const State& state) override;
  /// Of rank 0, which alone has a source.
  void stop() override;
  std::vector<std::string> warnings() const override;

  /// Batches that each rank gets in an epoch; only known on rank 0, and with batches of one size.
  std::optional<std::int64_t> size() override;
  /// Nothing is sent. Rank 0 reads the first group of an epoch, which may have to fill up the last
  /// one, and that last one; what lies between is skipped by the source, if it knows its size.
  std::int64_t skip(std::int64_t count) override;
  std::int64_t epoch() const override { return epoch_; }
  void set_epoch(std::int64_t epoch) override;
  std::optional<std::int64_t> remainder() const override { return remainder_; }
  bool end_of_dataloader() override { return last_; }
  void end() override { registration_.reset(); }

 private:
  struct Part;

  Config settings() const;
  std::optional<Part> advance(std::int64_t to_skip);
  std::vector<Part> deal(std::int64_t to_skip);
  std::int64_t groups_to_skip_unread(std::int64_t count);
  std::vector<Sample> cut(const BatchGroups::Group& group, bool last);
  Part exchange(std::vector<Part> parts);
  void take_back_group();
  std::vector<Part> failures(const Error& error) const;

  const std::shared_ptr<BatchSource> source_;  // null but on rank 0
  Comm& comm_;
  const DispatchOptions options_;
  std::unique_ptr<BatchGroups> groups_;  // on rank 0
  std::unique_ptr<LookAhead<BatchGroups>> ahead_;
  HeapBufferPool memory_;
  std::optional<BatchGroups::Group> dealing_;  // taken, but not with all ranks yet
  std::optional<FirstBatches> first_before_;   // first_ without those of dealing_, if it has some
  Registration registration_;

  bool last_ = false;  // what was handed out last ends the epoch
  std::optional<std::int64_t> remainder_;

  // Saved state.
  std::int64_t epoch_ = 0;
  std::int64_t handed_out_ = 0;  // in this epoch
  FirstBatches first_;           // on rank 0
};

}  // namespace energon
