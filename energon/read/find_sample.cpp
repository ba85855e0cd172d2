#include "energon/read/find_sample.h"

#include <charconv>
#include <iterator>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "energon/read/find_in_shards.h"
#include "energon/read/jsonl_dataset.h"
#include "energon/sample/buffer_allocator.h"
#include "io/dataset/dataset_kind.h"
#include "io/error.h"
#include "io/recipe/dataset_yaml.h"
#include "io/recipe/recipe.h"

namespace energon {
namespace {

// The line of a JSONL file.
FoundSample find_line(const std::string& path, const std::string& key, const FindOptions& options) {
  const auto dataset = std::make_shared<const JsonlDataset>(path, options.open.cache_dir);
  std::int64_t index = 0;
  const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || stop != key.data() + key.size() || index < 0 ||
      index >= dataset->sample_count()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("no sample has the key '{}'; keys are the numbers of the lines, from 0 "
                            "to {}",
                            printable(key), dataset->sample_count() - 1),
                {.path = path});
  }
  HeapBufferPool memory;
  std::vector<Sample> samples;
  dataset->open_reader()->read({&index, 1}, memory, samples);
  const ByteRange bytes = dataset->index().range(index);
  return {.sample = std::move(samples.at(0)),
          .bytes = bytes,
          .parts = {{.name = "json", .content = bytes}}};
}

std::vector<FoundSample> find_in(const std::string& path, const std::string& key,
                                 const SplitPart& part, KeyMatches matches,
                                 const FindOptions& options);

// The datasets of a leaf and, if only a split is asked for, what of them is in it.
std::vector<std::pair<std::string, SplitPart>> places_of(const LeafReference& leaf,
                                                         bool is_split_wanted) {
  std::vector<std::pair<std::string, SplitPart>> places;
  const auto add = [&](const std::string& path, const std::string& part,
                       const std::optional<std::string>& config) {
    places.emplace_back(path, is_split_wanted ? SplitPart{part, config} : SplitPart());
  };
  if (leaf.kind != LeafReference::Kind::kJoin) {
    add(leaf.path, leaf.split_part, leaf.split_config);
  }
  for (const JoinColumn& column : leaf.columns) {
    add(column.path, column.split_part, column.split_config);
  }
  return places;
}

// In the datasets of a metadataset, in order: of one of its splits, or of all.
std::vector<FoundSample> find_in_metadataset(const std::string& path, const std::string& key,
                                             const std::optional<std::string>& wanted_split,
                                             KeyMatches matches, const FindOptions& options) {
  std::vector<FoundSample> found;
  const Metadataset metadataset = read_metadataset(path);
  const std::vector<MetadatasetSplit> splits =
      wanted_split ? std::vector{metadataset.split(*wanted_split)} : metadataset.splits;
  std::set<std::tuple<std::string, std::optional<std::string>, std::optional<std::string>>>
      searched;
  for (const MetadatasetSplit& split : splits) {
    for (const LeafReference& leaf : load_recipe(path, split.name).leaves) {
      for (const auto& [dataset, part] : places_of(leaf, wanted_split.has_value())) {
        if (!searched.insert({dataset, part.name, part.config}).second) {
          continue;
        }
        try {
          auto here = find_in(dataset, key, part, matches, options);
          std::move(here.begin(), here.end(), std::back_inserter(found));
        } catch (const Error& error) {
          if (error.code() != ErrorCode::kNotFound) {
            throw;
          }
        }
        if (!found.empty() && matches == KeyMatches::kFirst) {
          return found;
        }
      }
    }
  }
  if (found.empty()) {
    fail_key_not_found(path, key);
  }
  return found;
}

// At least one; throws kNotFound if there is none.
std::vector<FoundSample> find_in(const std::string& path, const std::string& key,
                                 const SplitPart& part, KeyMatches matches,
                                 const FindOptions& options) {
  switch (detect_dataset_kind(path)) {
    case DatasetKind::kJsonl:
      return {find_line(path, key, options)};
    case DatasetKind::kMetadataset:
      return find_in_metadataset(path, key, part.name, matches, options);
    case DatasetKind::kPrepared:
    case DatasetKind::kPlainTars:
    case DatasetKind::kFolder:
      break;
  }
  return find_in_shards(path, key, part, matches, options);
}

SplitPart part_of_options(const std::string& path, const FindOptions& options) {
  SplitPart part{.name = options.split};
  if (options.split && detect_dataset_kind(path) == DatasetKind::kPrepared) {
    part.config = read_dataset_yaml(path, std::nullopt).split_config;
  }
  return part;
}

}  // namespace

FoundSample find_sample(const std::string& path, const std::string& key,
                        const FindOptions& options) {
  const SplitPart part = part_of_options(path, options);
  return std::move(find_in(path, key, part, KeyMatches::kFirst, options).front());
}

std::vector<FoundSample> find_samples(const std::string& path, const std::string& key,
                                      const FindOptions& options) {
  return find_in(path, key, part_of_options(path, options), KeyMatches::kAll, options);
}

}  // namespace energon
