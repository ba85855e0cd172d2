#include "python/src/recipe_object.h"

#include <nanobind/stl/string.h>

#include <string>

#include <nlohmann/json.hpp>

#include "io/recipe/recipe.h"
#include "python/src/gil.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

const char* kind_name(LeafReference::Kind kind) {
  switch (kind) {
    case LeafReference::Kind::kWebdataset:
      return "webdataset";
    case LeafReference::Kind::kJsonl:
      return "jsonl";
    case LeafReference::Kind::kJoin:
      return "join";
  }
  return "";
}

nb::dict leaf_to_python(const LeafReference& leaf, const Recipe& recipe) {
  nb::dict aux;
  for (const AuxReference& reference : leaf.aux) {
    const bool is_folder = reference.kind == AuxReference::Kind::kFolder;
    const bool is_jsonl = reference.kind == AuxReference::Kind::kJsonl;
    aux[reference.name.c_str()] = nb::make_tuple(is_folder  ? "folder"
                                                 : is_jsonl ? "jsonl"
                                                            : "webdataset",
                                                 reference.path);
  }
  nb::dict result;
  result["kind"] = kind_name(leaf.kind);
  result["path"] = leaf.path;
  result["split_part"] = leaf.split_part;
  result["subflavors"] = leaf.subflavors->dump();
  result["aux"] = aux;
  result["weight"] =
      recipe.mixing == Mixing::kWeighted ? nb::object(nb::float_(leaf.weight)) : nb::none();
  result["repetitions"] =
      recipe.mixing == Mixing::kEpochized ? nb::object(nb::float_(leaf.repetitions)) : nb::none();
  return result;
}

nb::list read_recipe(const std::string& path, const std::string& split_part) {
  const Recipe recipe = [&] {
    const ReleaseGil released;
    return load_recipe(path, split_part);
  }();
  nb::list leaves;
  for (const LeafReference& leaf : recipe.leaves) {
    leaves.append(leaf_to_python(leaf, recipe));
  }
  return leaves;
}

}  // namespace

void bind_recipe(nb::module_& module) {
  module.def("read_recipe", read_recipe, nb::arg("path"), nb::arg("split_part"),
             nb::sig("def read_recipe(path: str, split_part: str) -> list[dict[str, typing.Any]]"),
             "The datasets that a split has, not opened.");
}

}  // namespace energon::python
