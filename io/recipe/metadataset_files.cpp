#include "io/recipe/metadataset_files.h"

#include <filesystem>
#include <variant>

#include <fmt/format.h>

#include "io/dataset/dataset_kind.h"
#include "io/error.h"

namespace energon {

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
                fmt::format("the metadatasets name more than {} datasets, counted as often as "
                            "they are referred to; do they multiply each other?",
                            kMaxRecipeLeaves),
                {.path = path});
  }
}

// At most kMaxRecipeLeaves + 1. A file that cannot be used counts nothing: loading reports it.
std::size_t MetadatasetFiles::count_leaves(const std::string& reference,
                                           const std::string& split_part, std::size_t depth) {
  if (!is_metadataset(reference)) {
    return 1;
  }
  const std::string path = std::filesystem::absolute(reference).lexically_normal().string();
  const auto [known, is_new] = leaf_counts_.try_emplace({path, split_part}, 0);
  if (!is_new || depth == kMaxMetadatasetDepth) {  // counted before, or in a circle
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

}  // namespace energon
