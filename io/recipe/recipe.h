// Resolves a path to datasets and how they are mixed: a metadataset with everything it refers to,
// or a single dataset.
//
// Resolving references multiplies weights (normalized by the sum of their level) and repetitions
// from level to level, composes subsets, merges subflavors and shuffle multipliers, and returns a
// flat list of leaves. Leaves are not opened: a dataset's folder must exist, but its shards are not
// checked.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/recipe/dataset_yaml.h"
#include "io/recipe/metadataset.h"

namespace energon {

/// One dataset to open.
struct LeafReference {
  enum class Kind : std::uint8_t {
    kWebdataset,  ///< prepared or plain tars: open_split()
    kJsonl,       ///< io/index/jsonl_index.h; has no split parts
    kJoin,        ///< io/recipe/join_index.h
  };
  Kind kind = Kind::kWebdataset;
  std::string path = {};  ///< absolute; for a join, the metadataset that contains it
  std::string split_part = {};
  std::optional<std::string> split_config = std::nullopt;  ///< unset means split.yaml or split.json
  std::optional<std::string> dataset_config = std::nullopt;  ///< unset means dataset.yaml

  DatasetYaml yaml = {};  ///< for a prepared dataset

  /// A mapping. Metadatasets override dataset.yaml; outer metadatasets override inner ones.
  BoxedJson subflavors = {};  ///< a JSON object
  ShuffleOverEpochs shuffle = {};
  Subset subset = {};  ///< subset of the samples of the split part
  std::vector<AuxReference> aux = {};
  std::optional<MediaCondition> media_filter = std::nullopt;

  /// The share of all samples drawn, if the recipe is kWeighted: the weights of all leaves sum to
  /// 1. Else 1.
  double weight = 1;
  /// How often an epoch repeats each sample, if the recipe is kEpochized; may be a fraction. Else
  /// 1.
  double repetitions = 1;

  // Joins only.
  std::vector<JoinColumn> columns = {};
  std::vector<DatasetYaml> column_yaml = {};  ///< one per column
  Joiner joiner = {};
  /// True if this metadataset joins the same datasets elsewhere with other splits: the name of the
  /// join index must then include the splits.
  bool is_split_in_index_name = false;
};

/// The hierarchy as written, for display.
struct RecipeNode {
  enum class Kind : std::uint8_t { kLeaf, kMetadataset, kBlend, kBlendEpochized };
  Kind kind = Kind::kLeaf;
  std::string label = {};  ///< a path, "join" or the name of a split
  /// Weight or repetitions as written, if the node is part of a blend.
  std::optional<double> factor = std::nullopt;
  std::optional<std::size_t> leaf = std::nullopt;  ///< for kLeaf: position in Recipe::leaves
  std::vector<RecipeNode> children = {};
};

struct Recipe {
  Mixing mixing = Mixing::kSingle;  ///< of the whole hierarchy; a blend of one dataset is a blend
  std::vector<LeafReference> leaves = {};
  RecipeNode root = {};
};

struct RecipeOptions {
  /// Files in .nv-meta of the dataset at `path` itself; unset means split.yaml and dataset.yaml.
  /// Only prepared datasets have them.
  std::optional<std::string> split_config = std::nullopt;
  std::optional<std::string> dataset_config = std::nullopt;
  /// Lists leaves as the metadatasets name them, without looking at them: they and their aux may be
  /// missing, their `yaml` is empty, and `subflavors` are those of the metadatasets.
  bool lists_only = false;
};

/// `path` is any data that detect_dataset_kind() recognizes; `split_part` names the split of a
/// metadataset or the part of a dataset. Validation uses the same recipe but reads its leaves one
/// after another. Reads the metadatasets and the dataset.yaml of the leaves. Throws Error:
///   kNotFound         a file or folder does not exist; the message gives the metadataset naming it
///   kInvalidArgument  malformed metadatasets, unknown splits, blend mixed with blend_epochized,
///   circular references, absolute subsets of anything but a single dataset kUnsupported      URLs
///   kResourceExhausted  more than 100,000 leaves
Recipe load_recipe(const std::string& path, const std::string& split_part,
                   const RecipeOptions& options = {});

}  // namespace energon
