// The readers of one process, a reader a leaf, shared by the pipelines of its logical shards.

#pragma once

#include <map>
#include <memory>
#include <utility>

#include "energon/read/leaf_dataset.h"
#include "energon/read/read_helper.h"

namespace energon {

/// For the thread that drives the pipelines; made after the fork.
class LeafReaders {
 public:
  /// With a `helper`, which only a worker may have, readers share large reads with its thread.
  explicit LeafReaders(std::shared_ptr<ReadHelper> helper = nullptr) : helper_(std::move(helper)) {}

  /// The reader of `leaf`, opened with the first call.
  std::shared_ptr<LeafReader> of(const std::shared_ptr<const LeafDataset>& leaf);

 private:
  const std::shared_ptr<ReadHelper> helper_;
  // Keeps the leaf alive, so that no other one gets its address.
  std::map<std::shared_ptr<const LeafDataset>, std::shared_ptr<LeafReader>> readers_;
};

}  // namespace energon
