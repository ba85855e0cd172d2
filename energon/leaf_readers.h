// The readers of one process, a reader a leaf, shared by the pipelines of its logical shards.

#pragma once

#include <map>
#include <memory>

#include "energon/leaf_dataset.h"

namespace energon {

/// For the thread that drives the pipelines; made after the fork.
class LeafReaders {
 public:
  /// The reader of `leaf`, opened with the first call.
  std::shared_ptr<LeafReader> of(const std::shared_ptr<const LeafDataset>& leaf);

 private:
  // Keeps the leaf alive, so that no other one gets its address.
  std::map<std::shared_ptr<const LeafDataset>, std::shared_ptr<LeafReader>> readers_;
};

}  // namespace energon
