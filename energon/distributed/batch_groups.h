// Draws the batches of a source in groups, one group for each step of all ranks.
//
// All groups of an epoch but the last have the same number of batches. The first one tells how many
// samples a full group has.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "energon/distributed/look_ahead.h"
#include "energon/loader/batch_source.h"

namespace energon {

/// For one thread at a time.
class BatchGroups {
 public:
  /// Borrows `source`.
  BatchGroups(BatchSource& source, std::int64_t batches, bool drop_last);

  struct Group {
    std::vector<Sample> batches;
    std::int64_t samples = 0;
  };

  /// The next group; nothing at the end of the epoch. Throws Error of the source; kInvalidArgument
  /// if a batch has no samples or the batches of a group cannot be joined.
  std::optional<Group> next();
  SavableDataLoaderState save_state_rank() { return ahead_.state(); }
  /// Like the source's skip(), but counts groups. Requires: that many groups before the last.
  std::int64_t skip(std::int64_t count) { return ahead_.skip(count * batches_) / batches_; }

  /// Batches still to come in this epoch, with those that were drawn; nothing if not known.
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

}  // namespace energon
