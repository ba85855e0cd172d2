// The metadatasets of one hierarchy, each read once. Private to io.

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "io/recipe/metadataset.h"

namespace energon {

/// The depth to which metadatasets may be nested.
inline constexpr std::size_t kMaxMetadatasetDepth = 32;
/// The number of datasets that a hierarchy may name, counted as often as they are referred to.
inline constexpr std::size_t kMaxRecipeLeaves = 100'000;

class MetadatasetFiles {
 public:
  /// The metadataset in the file `path`, an absolute path. The reference stays valid. Throws Error
  /// as read_metadataset().
  const Metadataset& read(const std::string& path);

  /// Throws Error (kResourceExhausted) if the split of the metadataset names more than
  /// kMaxRecipeLeaves datasets. A few files can name any number of datasets, because each reference
  /// to a file is followed again; so they are counted, each file once, before anything is loaded.
  void check_leaf_count(const std::string& path, const std::string& split_part);

 private:
  std::size_t count_leaves(const std::string& reference, const std::string& split_part,
                           std::size_t depth);

  std::map<std::string, Metadataset> files_;                                // by path
  std::map<std::pair<std::string, std::string>, std::size_t> leaf_counts_;  // by path and split
};

}  // namespace energon
