#include "io/recipe/leaf_reference.h"

#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/file.h"
#include "io/recipe/dataset_yaml.h"

namespace energon {
namespace {

// Whether Energon would give the indices of two joins one name although their rows differ.
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

// Whether the file joins the same datasets elsewhere with other splits.
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
    yaml.warnings.push_back(fmt::format(
        "the split file '{}' of dataset.yaml is taken, not '{}', which the metadataset names",
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

}  // namespace

nlohmann::ordered_json merged_subflavors(nlohmann::ordered_json inner,
                                         const nlohmann::ordered_json& outer) {
  inner.update(outer);
  return inner;
}

LeafReference leaf_of_dataset(const MetadatasetPath& reference, DatasetKind kind,
                              const std::string& path, const std::string& split_part,
                              const std::string& place) {
  check_aux(reference.aux, place);
  LeafReference leaf{.kind = kind == DatasetKind::kJsonl ? LeafReference::Kind::kJsonl
                                                         : LeafReference::Kind::kWebdataset,
                     .path = path,
                     .split_part = split_part,
                     .split_config = reference.split_config,
                     .dataset_config = reference.dataset_config,
                     .aux = reference.aux,
                     .media_filter = reference.media_filter};
  if (kind == DatasetKind::kPrepared) {
    leaf.yaml = read_dataset_yaml(path, reference.dataset_config);
    leaf.subflavors = leaf.yaml.subflavors;
    prefer_split_config(leaf.yaml, leaf.split_config);
  }
  return leaf;
}

LeafReference leaf_of_join(const Metadataset& file, const MetadatasetJoin& join,
                           const std::string& split_part, const std::string& place) {
  LeafReference leaf{.kind = LeafReference::Kind::kJoin,
                     .path = file.path,
                     .split_part = split_part,
                     .columns = join.columns,
                     .joiner = join.joiner};
  for (JoinColumn& column : leaf.columns) {
    if (!path_exists(column.path)) {
      throw Error(ErrorCode::kNotFound, fmt::format("{}: no such dataset", place),
                  {.path = column.path});
    }
    if (detect_dataset_kind(column.path) != DatasetKind::kPrepared) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: only prepared datasets can be joined, this is none: {}", place,
                              to_string(detect_dataset_kind(column.path))),
                  {.path = column.path});
    }
    column.split_part = column.split_part.empty() ? split_part : column.split_part;
    DatasetYaml yaml = read_dataset_yaml(column.path, column.dataset_config);
    column.subflavors = merged_subflavors(yaml.subflavors, column.subflavors);
    prefer_split_config(yaml, column.split_config);
    leaf.column_yaml.push_back(std::move(yaml));
  }
  leaf.is_split_in_index_name = is_ambiguous(file, join, split_part);
  return leaf;
}

}  // namespace energon
