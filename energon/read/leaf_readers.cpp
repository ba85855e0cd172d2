#include "energon/read/leaf_readers.h"

#include "energon/stage/dataset.h"

namespace energon {

std::shared_ptr<LeafReaders> make_leaf_readers() { return std::make_shared<LeafReaders>(); }

std::shared_ptr<LeafReader> LeafReaders::of(const std::shared_ptr<const LeafDataset>& leaf) {
  std::shared_ptr<LeafReader>& reader = readers_[leaf];
  if (!reader) {
    reader = leaf->open_reader();
    reader->share_budgets(budgets_);
    if (helper_) {
      reader->share_reads(helper_);
    }
  }
  return reader;
}

}  // namespace energon
