// Describes a metadataset for users: the tree of its datasets with shares and lengths.

#pragma once

#include <string>

#include "io/recipe/recipe.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon::cli {

/// One line per node, indented by depth, each ended by a newline. `data` are the opened leaves of
/// `recipe`. A node's share is its part of the samples drawn: by weight in a blend, otherwise by
/// samples times repetitions.
std::string describe_recipe(const Recipe& recipe, const PipelineData& data);

/// "/data/birds [train]", "/data/rows.jsonl", "join of 2 datasets in /data/m.yaml".
std::string name_of(const LeafReference& leaf);

}  // namespace energon::cli
