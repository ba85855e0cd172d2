#include "io/recipe/recipe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "io/dataset/dataset_kind.h"
#include "io/error.h"
#include "io/file.h"
#include "io/recipe/dataset_yaml.h"
#include "io/recipe/metadataset.h"

namespace energon {

namespace fs = std::filesystem;

// --- The metadatasets of one hierarchy, each read once ---

namespace {

// Maximum nesting depth of metadatasets.
constexpr std::size_t kMaxMetadatasetDepth = 32;
// Maximum number of datasets in a hierarchy, counted once per reference.
constexpr std::size_t kMaxRecipeLeaves = 100'000;

class MetadatasetFiles {
 public:
  /// The metadataset in the file `path`, an absolute path. The reference stays valid. Throws Error
  /// as read_metadataset().
  const Metadataset& read(const std::string& path);

  /// Throws Error (kResourceExhausted) if the split of the metadataset names more than
  /// kMaxRecipeLeaves datasets. Because every reference to a file is expanded, a few small files
  /// can name any number of datasets. Therefore counts them, visiting each file once, before
  /// anything is loaded.
  void check_leaf_count(const std::string& path, const std::string& split_part);

 private:
  std::size_t count_leaves(const std::string& reference, const std::string& split_part,
                           std::size_t depth);

  std::map<std::string, Metadataset> files_;                                // by path
  std::map<std::pair<std::string, std::string>, std::size_t> leaf_counts_;  // by path and split
};

const Metadataset& MetadatasetFiles::read(const std::string& path) {
  auto file = files_.find(path);
  if (file == files_.end()) {
    file = files_.emplace(path, read_metadataset(path)).first;
  }
  return file->second;
}

void MetadatasetFiles::check_leaf_count(const std::string& path, const std::string& split_part) {
  if (count_leaves(path, split_part, 0) > kMaxRecipeLeaves) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("the metadatasets name more than {} datasets, counted once per "
                            "reference; do nested references multiply them?",
                            kMaxRecipeLeaves),
                {.path = path});
  }
}

// At most kMaxRecipeLeaves + 1. Ignores an invalid file, because loading reports it.
std::size_t MetadatasetFiles::count_leaves(const std::string& reference,
                                           const std::string& split_part, std::size_t depth) {
  if (!is_metadataset(reference)) {
    return 1;
  }
  const std::string path = std::filesystem::absolute(reference).lexically_normal().string();
  const auto [known, is_new] = leaf_counts_.try_emplace({path, split_part}, 0);
  if (!is_new || depth == kMaxMetadatasetDepth) {  // already counted, or a circular reference
    return known->second;
  }
  std::size_t count = 0;
  try {
    const Metadataset& file = read(path);
    const MetadatasetSplit& split = file.split(split_part);
    for (const MetadatasetEntry& entry : split.entries) {
      const auto* const inner = std::get_if<MetadatasetPath>(&entry.source);
      count += inner == nullptr
                   ? 1
                   : count_leaves(inner->path, entry.split_part.value_or(split.name), depth + 1);
      if (count > kMaxRecipeLeaves) {
        count = kMaxRecipeLeaves + 1;
        break;
      }
    }
  } catch (const Error&) {
    count = 0;
  }
  return known->second = count;
}

// --- Leaves ---
//
// Makes one leaf of a recipe from a reference in a metadataset or by the user.

// Whether Energon would give the indices of two joins the same name although their rows differ.
bool differ_in_split_only(const MetadatasetJoin& a, const std::string& split_a,
                          const MetadatasetJoin& b, const std::string& split_b) {
  if (a.columns.size() != b.columns.size()) {
    return false;
  }
  bool differ = false;
  for (std::size_t i = 0; i < a.columns.size(); ++i) {
    const JoinColumn& x = a.columns[i];
    const JoinColumn& y = b.columns[i];
    if (x.path != y.path || x.nonmatch != y.nonmatch) {
      return false;
    }
    differ = differ || x.split_config != y.split_config ||
             (x.split_part.empty() ? split_a : x.split_part) !=
                 (y.split_part.empty() ? split_b : y.split_part);
  }
  return differ;
}

// Whether the file has another join of the same datasets with other splits.
bool is_ambiguous(const Metadataset& file, const MetadatasetJoin& join,
                  const std::string& split_part) {
  for (const MetadatasetSplit& split : file.splits) {
    for (const MetadatasetEntry& entry : split.entries) {
      const auto* const other = std::get_if<MetadatasetJoin>(&entry.source);
      if (other != nullptr &&
          differ_in_split_only(join, split_part, *other, entry.split_part.value_or(split.name))) {
        return true;
      }
    }
  }
  return false;
}

// As in Energon, the split file of dataset.yaml takes precedence over the metadataset's.
void prefer_split_config(DatasetYaml& yaml, std::optional<std::string>& split_config) {
  if (!yaml.split_config) {
    return;
  }
  if (split_config && split_config != yaml.split_config) {
    yaml.warnings.push_back(
        fmt::format("the split file '{}' from dataset.yaml overrides '{}' from the metadataset",
                    printable(*yaml.split_config), printable(*split_config)));
  }
  split_config = yaml.split_config;
}

void check_aux(const std::vector<AuxReference>& aux, const std::string& place) {
  for (const AuxReference& reference : aux) {
    const auto fail = [&](ErrorCode code, std::string_view problem) {
      throw Error(code, fmt::format("{}: aux '{}': {}", place, printable(reference.name), problem),
                  {.path = reference.path});
    };
    if (!path_exists(reference.path)) {
      fail(ErrorCode::kNotFound, "no such file or folder");
    }
    if (reference.kind == AuxReference::Kind::kWebdataset &&
        !path_exists(reference.path + "/.nv-meta/index.sqlite")) {
      fail(ErrorCode::kInvalidArgument,
           "not a prepared dataset; run energon prepare on it, or name a plain folder as "
           "filesystem://…");
    }
  }
}

// Merges both objects; `outer` overrides `inner`.
nlohmann::ordered_json merged_subflavors(nlohmann::ordered_json inner,
                                         const nlohmann::ordered_json& outer) {
  inner.update(outer);
  return inner;
}

// A dataset of kind kPrepared, kPlainTars or kJsonl at the absolute `path`. `place` is the
// reference's place, for errors. Reads the dataset.yaml of a prepared dataset, unless `lists_only`.
// Throws Error as load_recipe().
LeafReference leaf_of_dataset(const MetadatasetPath& reference, DatasetKind kind,
                              const std::string& path, const std::string& split_part,
                              const std::string& place, bool lists_only) {
  LeafReference leaf{.kind = kind == DatasetKind::kJsonl ? LeafReference::Kind::kJsonl
                                                         : LeafReference::Kind::kWebdataset,
                     .path = path,
                     .split_part = split_part,
                     .split_config = reference.split_config,
                     .dataset_config = reference.dataset_config,
                     .aux = reference.aux,
                     .media_filter = reference.media_filter};
  if (lists_only) {
    return leaf;
  }
  check_aux(reference.aux, place);
  if (kind == DatasetKind::kPrepared) {
    leaf.yaml = read_dataset_yaml(path, reference.dataset_config);
    leaf.subflavors = leaf.yaml.subflavors;
    prefer_split_config(leaf.yaml, leaf.split_config);
  }
  return leaf;
}

// A join in `file`. Reads the dataset.yaml of each column, unless `lists_only`. Throws Error as
// load_recipe().
LeafReference leaf_of_join(const Metadataset& file, const MetadatasetJoin& join,
                           const std::string& split_part, const std::string& place,
                           bool lists_only) {
  LeafReference leaf{.kind = LeafReference::Kind::kJoin,
                     .path = file.path,
                     .split_part = split_part,
                     .columns = join.columns,
                     .joiner = join.joiner};
  for (JoinColumn& column : leaf.columns) {
    column.split_part = column.split_part.empty() ? split_part : column.split_part;
    if (lists_only) {
      leaf.column_yaml.emplace_back();
      continue;
    }
    if (!path_exists(column.path)) {
      throw Error(ErrorCode::kNotFound, fmt::format("{}: no such dataset", place),
                  {.path = column.path});
    }
    if (detect_dataset_kind(column.path) != DatasetKind::kPrepared) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: only prepared datasets can be joined, found: {}", place,
                              to_string(detect_dataset_kind(column.path))),
                  {.path = column.path});
    }
    DatasetYaml yaml = read_dataset_yaml(column.path, column.dataset_config);
    column.subflavors = merged_subflavors(yaml.subflavors, column.subflavors);
    prefer_split_config(yaml, column.split_config);
    leaf.column_yaml.push_back(std::move(yaml));
  }
  leaf.is_split_in_index_name = is_ambiguous(file, join, split_part);
  return leaf;
}

// --- The hierarchy ---

// Limits, because leaves are drawn with floats, and passes are counted in 64 bits.
constexpr double kLeastShare = 1e-37;
constexpr double kLeastRepetitions = 1e-15;
constexpr double kMostRepetitions = 1e15;

class RecipeLoader {
 public:
  explicit RecipeLoader(const RecipeOptions& options) : options_(options) {}

  Recipe load(const std::string& path, const std::string& split_part) {
    if (is_metadataset(path)) {
      files_.check_leaf_count(path, split_part);
    }
    Recipe recipe;
    const auto [mixing, node] = load_path({.path = path,
                                           .split_config = options_.split_config,
                                           .dataset_config = options_.dataset_config},
                                          split_part, "", recipe.leaves);
    recipe.mixing = mixing;
    recipe.root = node;
    return recipe;
  }

 private:
  using Leaves = std::vector<LeafReference>;

  // The mixing of a part of the hierarchy, and its display.
  struct Loaded {
    Mixing mixing = Mixing::kSingle;
    RecipeNode node;
  };

  // `place` is the reference's place, for errors, or "" for a path from the user.
  Loaded load_path(const MetadatasetPath& reference, const std::string& split_part,
                   const std::string& place, Leaves& leaves) {
    const DatasetKind kind = kind_of(reference, place);
    const fs::path full = fs::absolute(reference.path).lexically_normal();
    const std::string path = full.has_filename() ? full.string() : full.parent_path().string();
    const auto fail = [&](std::string_view problem) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}{}{}", place, place.empty() ? "" : ": ", problem), {.path = path});
    };
    if (kind != DatasetKind::kPrepared && (reference.split_config || reference.dataset_config)) {
      fail(fmt::format("only prepared datasets have a split_config and a dataset_config, found: {}",
                       to_string(kind)));
    }
    if (kind != DatasetKind::kPrepared && reference.media_filter) {
      fail(fmt::format("only prepared datasets have a media_filter, found: {}", to_string(kind)));
    }
    if (kind == DatasetKind::kMetadataset) {
      if (!reference.aux.empty()) {
        fail("aux belongs to a dataset, not to a reference to a metadataset");
      }
      return load_metadataset(path, split_part, leaves);
    }
    if (kind == DatasetKind::kFolder) {
      fail("this folder has no shards; it can only be an aux of a dataset");
    }
    return add_leaf(leaf_of_dataset(reference, kind, path, split_part, place, options_.lists_only),
                    path, leaves);
  }

  DatasetKind kind_of(const MetadatasetPath& reference, const std::string& place) const {
    try {
      return detect_dataset_kind(reference.path);
    } catch (const Error& error) {
      if (options_.lists_only && !place.empty() && error.code() == ErrorCode::kNotFound) {
        return DatasetKind::kPrepared;
      }
      throw Error(error.code(),
                  fmt::format("{}{}{}", place, place.empty() ? "" : ": ", error.message()),
                  error.context());
    }
  }

  Loaded load_metadataset(const std::string& path, const std::string& split_name, Leaves& leaves) {
    const auto seen = std::find(open_.begin(), open_.end(), path);
    if (seen != open_.end()) {
      std::string circle;
      for (auto file = seen; file != open_.end(); ++file) {
        circle += *file + " -> ";
      }
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("metadatasets refer to each other in a circle: {}{}",
                              printable(circle), printable(path)),
                  {.path = path});
    }
    if (open_.size() == kMaxMetadatasetDepth) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("metadatasets are nested deeper than {} levels", kMaxMetadatasetDepth),
          {.path = path});
    }
    const Metadataset& file = files_.read(path);
    open_.push_back(path);
    Loaded split = load_split(file, file.split(split_name), leaves);
    open_.pop_back();
    return {.mixing = split.mixing,
            .node = {.kind = RecipeNode::Kind::kMetadataset,
                     .label = path,
                     .children = {std::move(split.node)}}};
  }

  Loaded load_split(const Metadataset& file, const MetadatasetSplit& split, Leaves& leaves) {
    if (split.mixing == Mixing::kSingle) {
      return load_entry(file, split, split.entries.front(), leaves);
    }
    const bool is_weighted = split.mixing == Mixing::kWeighted;
    Loaded result{
        .mixing = split.mixing,
        .node = {.kind = is_weighted ? RecipeNode::Kind::kBlend : RecipeNode::Kind::kBlendEpochized,
                 .label = split.name}};
    const double sum = sum_of_factors(file, split);
    const std::size_t first_of_split = leaves.size();
    for (const MetadatasetEntry& entry : split.entries) {
      const std::size_t first = leaves.size();
      Loaded inner = load_entry(file, split, entry, leaves);
      check_mixing(inner.mixing, file, split, entry);
      for (std::size_t i = first; i < leaves.size(); ++i) {
        double& share = is_weighted ? leaves[i].weight : leaves[i].repetitions;
        share = is_weighted ? share * entry.factor / sum : share * entry.factor;
        check_share(share, leaves[i], entry, file, is_weighted);
      }
      inner.node.factor = entry.factor;
      result.node.children.push_back(std::move(inner.node));
    }
    if (split.subset) {
      apply_subset(*split.subset, file, "splits." + split.name, first_of_split, leaves);
    }
    return result;
  }

  static double sum_of_factors(const Metadataset& file, const MetadatasetSplit& split) {
    double sum = 0;
    for (const MetadatasetEntry& entry : split.entries) {
      sum += entry.factor;
    }
    if (!std::isfinite(sum)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("splits.{}: the sum of the weights or repetitions is too large",
                              printable(split.name)),
                  {.path = file.path});
    }
    return sum;
  }

  // Throws Error if `inner`, the mixing below `entry`, differs from that of the split.
  static void check_mixing(Mixing inner, const Metadataset& file, const MetadatasetSplit& split,
                           const MetadatasetEntry& entry) {
    if (inner != Mixing::kSingle && inner != split.mixing) {
      const bool is_weighted = split.mixing == Mixing::kWeighted;
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is a {} within a {}; one hierarchy can only have one of the two",
                              entry.place, is_weighted ? "blend_epochized" : "blend",
                              is_weighted ? "blend" : "blend_epochized"),
                  {.path = file.path});
    }
  }

  // `share` is the product of the factors from the leaf up to `entry`.
  static void check_share(double share, const LeafReference& leaf, const MetadatasetEntry& entry,
                          const Metadataset& file, bool is_weighted) {
    std::string problem;
    if (is_weighted && !(share >= kLeastShare)) {
      problem = fmt::format("its share of the blend is {:g}, too small to be drawn (at least {:g})",
                            share, kLeastShare);
    } else if (!is_weighted && !(share >= kLeastRepetitions && share <= kMostRepetitions)) {
      problem =
          fmt::format("{:g} repetitions, with nested ones multiplied, are not from {:g} to {:g}",
                      share, kLeastRepetitions, kMostRepetitions);
    }
    if (!problem.empty()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: the dataset '{}': {}", entry.place, printable(leaf.path), problem),
          {.path = file.path});
    }
  }

  Loaded load_entry(const Metadataset& file, const MetadatasetSplit& split,
                    const MetadatasetEntry& entry, Leaves& leaves) {
    const std::size_t first = leaves.size();
    const std::string split_part = entry.split_part.value_or(split.name);
    const std::string place = fmt::format("{} in {}", entry.place, file.path);
    const auto* const join = std::get_if<MetadatasetJoin>(&entry.source);
    Loaded loaded =
        join != nullptr
            ? add_leaf(leaf_of_join(file, *join, split_part, place, options_.lists_only), "join",
                       leaves)
            : load_path(std::get<MetadatasetPath>(entry.source), split_part, place, leaves);
    for (std::size_t i = first; i < leaves.size(); ++i) {
      leaves[i].subflavors = merged_subflavors(std::move(leaves[i].subflavors), entry.subflavors);
      for (JoinColumn& column : leaves[i].columns) {
        column.subflavors = merged_subflavors(std::move(column.subflavors), entry.subflavors);
      }
      const auto shuffle = multiply(leaves[i].shuffle, entry.shuffle);
      if (!shuffle) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: shuffle_over_epochs_multiplier: {} times {} is too large",
                                place, leaves[i].shuffle.epochs, entry.shuffle.epochs));
      }
      leaves[i].shuffle = *shuffle;
    }
    if (entry.subset && loaded.node.kind == RecipeNode::Kind::kLeaf) {
      leaves.back().subset = *entry.subset;
    } else if (entry.subset) {
      apply_subset(*entry.subset, file, entry.place, first, leaves);
    }
    return loaded;
  }

  // Applies the subset of a blend, or of a reference to a metadataset, to all leaves below it.
  static void apply_subset(const Subset& subset, const Metadataset& file, const std::string& place,
                           std::size_t first, Leaves& leaves) {
    for (std::size_t i = first; i < leaves.size(); ++i) {
      try {
        leaves[i].subset = compose(leaves[i].subset, subset);
      } catch (const Error& error) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{}.subset: {}", place, error.message()), {.path = file.path});
      }
    }
  }

  static Loaded add_leaf(LeafReference leaf, const std::string& label, Leaves& leaves) {
    if (leaves.size() == kMaxRecipeLeaves) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("the metadatasets name more than {} datasets", kMaxRecipeLeaves),
                  {.path = leaf.path});
    }
    leaves.push_back(std::move(leaf));
    return {.mixing = Mixing::kSingle,
            .node = {.kind = RecipeNode::Kind::kLeaf, .label = label, .leaf = leaves.size() - 1}};
  }

  const RecipeOptions& options_;
  // Paths are compared as text. A circle through links to folders ends at kMaxMetadatasetDepth.
  std::vector<std::string> open_;  // from the outermost file to the current one
  MetadatasetFiles files_;
};

}  // namespace

Recipe load_recipe(const std::string& path, const std::string& split_part,
                   const RecipeOptions& options) {
  check_path(path);
  return RecipeLoader(options).load(path, split_part);
}

}  // namespace energon
