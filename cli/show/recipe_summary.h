// A metadataset for people: the tree of its datasets with shares and lengths.

#pragma once

#include <string>

#include "io/recipe/recipe.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon::cli {

/// One line per node, indented by depth, ended by newlines. `data` are the opened leaves of
/// `recipe`. The share is that of the samples drawn: by weight in a blend, by samples times
/// repetitions otherwise.
std::string describe_recipe(const Recipe& recipe, const PipelineData& data);

/// "/data/birds [train]", "/data/rows.jsonl", "join of 2 datasets in /data/m.yaml".
std::string name_of(const LeafReference& leaf);

}  // namespace energon::cli
