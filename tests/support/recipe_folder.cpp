#include "tests/support/recipe_folder.h"

#include <fmt/format.h>

namespace energon::testing {

RecipeFolder::RecipeFolder(const std::vector<PreparedSpec>& datasets) {
  for (const PreparedSpec& dataset : datasets) {
    write_prepared(*this, dataset);
  }
}

std::string RecipeFolder::recipe(std::string_view train, std::string_view name) const {
  return write(name, fmt::format("__class__: MetadatasetV2\nsplits: {{train: {}}}\n", train));
}

}  // namespace energon::testing
