// Which samples a preview begins with: --key and --start.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/recipe/recipe.h"
#include "wrappers/recipe/open_data.h"

namespace energon::cli {

/// A sample of a leaf.
struct LeafPosition {
  std::size_t leaf = 0;    ///< in PipelineData::leaves
  std::int64_t index = 0;  ///< in the leaf
};

/// What `--start` means if it is a number without leading zeros: a position, counted from 0, in
/// each dataset. Nothing for other texts, which are keys.
std::optional<std::int64_t> position_in(const std::string& start);

/// The samples with the key `key`, in the order of the leaves of `data`, which was opened from
/// `path`. Throws Error: kNotFound if there is none, kUnsupported if the key is only in joins,
/// which have no index of keys; else as find_samples().
std::vector<LeafPosition> find_positions(const std::string& path, const std::string& key,
                                         const DataOptions& options, const PipelineData& data);

}  // namespace energon::cli
