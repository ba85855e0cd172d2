// A leaf that gives references instead of samples: to compute an order without reading.

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "energon/leaf_dataset.h"

namespace energon::cli {

/// The key of sample `index` of leaf `leaf` in a stream of references.
std::string reference_key(std::size_t leaf, std::int64_t index);

/// The same positions as `inner`, the `leaf`-th of its pipeline, and the same configuration;
/// samples have their reference as key and no fields.
std::shared_ptr<const LeafDataset> reference_leaf(std::shared_ptr<const LeafDataset> inner,
                                                  std::size_t leaf);

}  // namespace energon::cli
