// Which datasets a path means, and how they are mixed: a metadataset with all that it refers to, or
// one dataset alone.
//
// Following the references multiplies weights (normalised by the sum of their level) and
// repetitions down, composes subsets, merges subflavors and shuffle multipliers, and ends in a flat
// list of leaves. Leaves are not opened: that a dataset's folder is there is checked, its shards
// are not.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/recipe/dataset_yaml.h"
#include "io/recipe/metadataset.h"
#include "io/recipe/subset.h"

namespace energon {

/// One dataset to open.
struct LeafReference {
  enum class Kind : std::uint8_t {
    kWebdataset,  ///< prepared or plain tars: open_split()
    kJsonl,       ///< io/index/jsonl_index.h; has no split parts
    kJoin,        ///< io/recipe/join_source.h
  };
  Kind kind = Kind::kWebdataset;
  std::string path = {};  ///< absolute; of a join, that of the metadataset in which it stands
  std::string split_part = {};
  std::optional<std::string> split_config = std::nullopt;    ///< absent: split.yaml, split.json
  std::optional<std::string> dataset_config = std::nullopt;  ///< absent: dataset.yaml

  DatasetYaml yaml = {};  ///< of a prepared dataset

  /// A mapping. What the metadatasets say wins over dataset.yaml, the outer over the inner.
  nlohmann::ordered_json subflavors = nlohmann::ordered_json::object();
  ShuffleMultiplier shuffle = {};
  Subset subset = {};  ///< of the samples of the split part
  std::vector<AuxReference> aux = {};

  /// Of all samples drawn, if the recipe is kWeighted: the weights of all leaves sum to 1. Else 1.
  double weight = 1;
  /// Of each sample in an epoch, if the recipe is kEpochized; may be a fraction. Else 1.
  double repetitions = 1;

  // Joins only.
  std::vector<JoinColumn> columns = {};
  std::vector<DatasetYaml> column_yaml = {};  ///< of each
  Joiner joiner = {};
  /// The same datasets are joined elsewhere in this metadataset with other splits, so that the
  /// splits belong into the name of the join index.
  bool is_split_in_index_name = false;
};

/// The hierarchy as it is written, for people.
struct RecipeNode {
  enum class Kind : std::uint8_t { kLeaf, kMetadataset, kBlend, kBlendEpochized };
  Kind kind = Kind::kLeaf;
  std::string label = {};  ///< a path, "join" or the name of a split
  /// Weight or repetitions as written, if the node is part of a blend.
  std::optional<double> factor = std::nullopt;
  std::optional<std::size_t> leaf = std::nullopt;  ///< of kLeaf: position in Recipe::leaves
  std::vector<RecipeNode> children = {};
};

struct Recipe {
  Mixing mixing = Mixing::kSingle;  ///< of the whole hierarchy; a blend of one is a blend
  std::vector<LeafReference> leaves = {};
  RecipeNode root = {};
};

/// `path` is whatever detect_dataset_kind() knows as data; `split_part` names the split of a
/// metadataset or the part of a dataset. Validation uses the same recipe, with its leaves one after
/// another. Reads the metadatasets and the dataset.yaml of the leaves. Throws Error:
///   kNotFound         a file or folder is absent; the metadataset that names it is in the message
///   kInvalidArgument  malformed metadatasets, unknown splits, blend mixed with blend_epochized,
///                     references in a circle, absolute subsets around others
///   kUnsupported      URLs
///   kResourceExhausted  more than 100,000 leaves
Recipe load_recipe(const std::string& path, const std::string& split_part);

}  // namespace energon
