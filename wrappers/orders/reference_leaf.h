// A leaf that gives references instead of samples: to compute an order without reading.

#pragma once

#include <memory>

#include "energon/read/leaf_dataset.h"

namespace energon {

/// The same positions as `inner` and the same configuration; samples have no keys and no fields,
/// but their restore keys lead to the samples of `inner`.
std::shared_ptr<const LeafDataset> reference_leaf(std::shared_ptr<const LeafDataset> inner);

}  // namespace energon
