// A leaf that returns references instead of samples, to compute an order without reading data.

#pragma once

#include <memory>

#include "energon/read/leaf_dataset.h"

namespace energon {

/// A leaf with the same positions and the same configuration as `inner`. Its samples have no keys
/// and no fields, but their restore keys refer to the samples of `inner`.
std::shared_ptr<const LeafDataset> reference_leaf(std::shared_ptr<const LeafDataset> inner);

}  // namespace energon
