// The readers of one process, one per leaf, shared by the pipelines of its logical shards.

#pragma once

#include <map>
#include <memory>
#include <utility>

#include "energon/read/leaf_dataset.h"
#include "energon/read/read_budgets.h"
#include "energon/read/read_helper.h"

namespace energon {

/// Used only by the thread that drives the pipelines. Made after the fork. Its readers have one
/// limit on open files, and on other things that they keep (energon/read/read_budgets.h).
class LeafReaders {
 public:
  /// If `helper` is not null, readers share large reads with its thread. Only a worker may pass
  /// one.
  explicit LeafReaders(std::shared_ptr<ReadHelper> helper = nullptr) : helper_(std::move(helper)) {}

  /// The reader of `leaf`, opened on the first call.
  std::shared_ptr<LeafReader> of(const std::shared_ptr<const LeafDataset>& leaf);
  const ReadBudgets& budgets() const { return budgets_; }

 private:
  const ReadBudgets budgets_;
  const std::shared_ptr<ReadHelper> helper_;
  // Keeps each leaf alive, so that no other leaf can get its address.
  std::map<std::shared_ptr<const LeafDataset>, std::shared_ptr<LeafReader>> readers_;
};

}  // namespace energon
