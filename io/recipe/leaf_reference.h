// Makes one leaf of a recipe from what a metadataset or the user refers to. Private to io.

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "io/dataset/dataset_kind.h"
#include "io/recipe/metadataset.h"
#include "io/recipe/recipe.h"

namespace energon {

/// A dataset of kind kPrepared, kPlainTars or kJsonl at the absolute `path`. `place` says in errors
/// where the reference is. Reads the dataset.yaml of a prepared dataset. Throws Error as
/// load_recipe().
LeafReference leaf_of_dataset(const MetadatasetPath& reference, DatasetKind kind,
                              const std::string& path, const std::string& split_part,
                              const std::string& place);

/// A join in `file`. Reads the dataset.yaml of each column. Throws Error as load_recipe().
LeafReference leaf_of_join(const Metadataset& file, const MetadatasetJoin& join,
                           const std::string& split_part, const std::string& place);

/// Both objects in one; `outer` overrides `inner`.
nlohmann::ordered_json merged_subflavors(nlohmann::ordered_json inner,
                                         const nlohmann::ordered_json& outer);

}  // namespace energon
