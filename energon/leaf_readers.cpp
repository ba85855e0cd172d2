#include "energon/leaf_readers.h"

namespace energon {

std::shared_ptr<LeafReader> LeafReaders::of(const std::shared_ptr<const LeafDataset>& leaf) {
  std::shared_ptr<LeafReader>& reader = readers_[leaf];
  if (!reader) {
    reader = leaf->open_reader();
    if (helper_) {
      reader->share_reads(helper_);
    }
  }
  return reader;
}

}  // namespace energon
