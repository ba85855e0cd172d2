#include "wrappers/recipe/open_data.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/read/jsonl_dataset.h"
#include "io/dataset/prepare_commit.h"
#include "io/error.h"
#include "io/recipe/dataset_yaml.h"
#include "io/recipe/join_index.h"
#include "io/recipe/recipe.h"
#include "wrappers/stages/typed_samples.h"

namespace energon {
namespace {

LeafSlicing slicing_of(const DatasetYaml& yaml) {
  LeafSlicing slicing{.shuffle_over_epochs = yaml.shuffle_over_epochs,
                      .max_samples_per_sequence = yaml.max_samples_per_sequence};
  if (yaml.parallel_shard_iters) {
    constexpr std::int64_t kStandard = 16;  // Energon's default in training
    slicing.parallel_slices = yaml.parallel_shard_iters->value_or(kStandard);
  }
  return slicing;
}

/// Opens the leaves of one recipe.
class Opener {
 public:
  Opener(const DataOptions& options, PipelineData& data) : options_(options), data_(data) {}

  PipelineLeaf open(const LeafReference& reference) {
    PipelineLeaf leaf{.name = reference.path,
                      .weight = reference.weight,
                      .repetitions = reference.repetitions,
                      .shuffle = reference.shuffle,
                      .subflavors = reference.subflavors->dump()};
    switch (reference.kind) {
      case LeafReference::Kind::kWebdataset:
        open_webdataset(reference, leaf);
        break;
      case LeafReference::Kind::kJsonl:
        open_jsonl(reference, leaf);
        break;
      case LeafReference::Kind::kJoin:
        open_join(reference, leaf);
        break;
    }
    if (reference.subset != Subset()) {
      leaf.range = resolve(reference.subset, leaf.dataset->sample_count());
    }
    for (const AuxReference& aux : reference.aux) {
      leaf.aux.emplace(aux.name, store(aux));
    }
    return leaf;
  }

 private:
  void open_webdataset(const LeafReference& reference, PipelineLeaf& leaf) {
    DatasetYaml yaml = reference.yaml;
    std::string identity;
    if (std::optional<ForeignSamples> foreign = foreign_samples(reference)) {
      apply_foreign(*foreign, {&yaml, 1}, leaf);
      identity = std::move(foreign->identity);
    } else if (options_.typed) {
      leaf.typed = typed_samples_of(yaml);
      apply(*leaf.typed, yaml);
    }
    auto dataset = webdataset(reference.path, reference.split_part, reference.split_config,
                              reference.media_filter, leaf.subflavors, yaml, options_.check_shards,
                              std::move(identity));
    leaf.slicing = slicing_of(reference.yaml);
    leaf.length = dataset->sample_count();
    if (dataset->shards().kind == "prepared") {
      leaf.primary = webdataset_store(dataset->shards().dataset_path);
    }
    leaf.dataset = std::move(dataset);
  }

  // Reads only needed settings, and warns only about settings that are not applied.
  static void apply(const TypedSamples& samples, DatasetYaml& yaml) {
    std::erase(yaml.warnings, yaml.samples.warning);
    if (!yaml.samples.typed_warning.empty()) {
      yaml.warnings.push_back(yaml.samples.typed_warning);
    }
    if (samples.type != SampleType::kCrude) {
      yaml.part_filter = samples.field_map.needed_parts();
    }
  }

  // How the program makes the samples; nullopt if it does not.
  std::optional<ForeignSamples> foreign_samples(const LeafReference& reference) const {
    const bool is_join = reference.kind == LeafReference::Kind::kJoin;
    if (!options_.typed || !options_.foreign || !(is_join || reference.yaml.samples.is_foreign)) {
      return std::nullopt;
    }
    ForeignDataset dataset{.leaf = data_.leaves.size(), .path = reference.path};
    if (is_join) {
      dataset.joiner = reference.joiner;
      for (std::size_t i = 0; i < reference.columns.size(); ++i) {
        dataset.columns.push_back(
            foreign_column(reference.columns[i], reference.column_yaml.at(i)));
      }
    } else {
      dataset.columns.push_back(foreign_column({.path = reference.path,
                                                .split_part = reference.split_part,
                                                .split_config = reference.split_config,
                                                .subflavors = reference.subflavors},
                                               reference.yaml));
    }
    std::optional<ForeignSamples> samples = options_.foreign(dataset);
    if (samples && samples->parts.size() != dataset.columns.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("DataOptions::foreign returned the parts of {} datasets, expected {}",
                              samples->parts.size(), dataset.columns.size()),
                  {.path = reference.path});
    }
    return samples;
  }

  static ForeignDataset::Column foreign_column(const JoinColumn& column, const DatasetYaml& yaml) {
    const std::string& path = yaml.samples.path;
    return {.name = column.name,
            .path = column.path,
            .split_part = column.split_part,
            .split_config = column.split_config,
            .subflavors = column.subflavors,
            .yaml_path = path,
            .yaml = path.empty() ? BoxedJson() : read_dataset_yaml_entries(path),
            .is_foreign = yaml.samples.is_foreign};
  }

  // `yaml` has one item for each column.
  static void apply_foreign(const ForeignSamples& samples, std::span<DatasetYaml> yaml,
                            PipelineLeaf& leaf) {
    leaf.load = samples.load;
    leaf.loads_crude = samples.is_crude;
    for (std::size_t i = 0; i < yaml.size(); ++i) {
      std::erase(yaml[i].warnings, yaml[i].samples.warning);
      yaml[i].part_filter = samples.parts[i];
    }
  }

  void open_jsonl(const LeafReference& reference, PipelineLeaf& leaf) {
    auto dataset = std::make_shared<const JsonlDataset>(
        reference.path, options_.open.cache_dir, leaf.subflavors, options_.open.exclude_files,
        options_.max_sample_bytes);
    data_.warnings.insert(data_.warnings.end(), dataset->warnings().begin(),
                          dataset->warnings().end());
    if (options_.typed) {
      leaf.typed.emplace();  // crude, because there is no dataset.yaml
    }
    leaf.length = dataset->sample_count();
    leaf.dataset = std::move(dataset);
    leaf.primary = [path = reference.path, cache_dir = options_.open.cache_dir] {
      return std::make_unique<JsonlFileStore>(path, cache_dir);
    };
  }

  std::shared_ptr<const Webdataset> webdataset(const std::string& path, const std::string& split,
                                               const std::optional<std::string>& split_config,
                                               const std::optional<MediaCondition>& media_filter,
                                               const std::string& subflavors,
                                               const DatasetYaml& yaml, CheckShards check_shards,
                                               std::string loaded_by = {}) {
    OpenOptions open = options_.open;
    open.check_shards = check_shards;
    open.split_part = split;
    open.split_config = split_config;
    if (media_filter) {
      open.media_filter = media_filter;
    }
    open.needs_checksums = options_.verify_checksums != VerifyChecksums::kOff;
    ShardSet shards = open_split(path, open);
    data_.warnings.insert(data_.warnings.end(), yaml.warnings.begin(), yaml.warnings.end());
    data_.warnings.insert(data_.warnings.end(), shards.warnings.begin(), shards.warnings.end());
    for (const BrokenShard& shard : shards.broken) {
      data_.broken.push_back(
          {.stage = "open",
           .code = shard.code,
           .cause = shard.cause,
           .samples = {{.dataset_path = shards.dataset_path, .shard_name = shard.name}},
           .is_shard_broken = true});
    }
    return std::make_shared<const Webdataset>(
        std::move(shards), WebdatasetOptions{.verify_checksums = options_.verify_checksums,
                                             .max_sample_bytes = options_.max_sample_bytes,
                                             .subflavors = subflavors,
                                             .part_filter = yaml.part_filter,
                                             .loaded_by = std::move(loaded_by)});
  }

  // The types of the datasets of a join, if they are typed. Fields of crude samples could not be
  // distinguished from those of the other datasets.
  static std::vector<TypedSamples> columns_of(const LeafReference& reference) {
    std::vector<TypedSamples> columns;
    std::size_t crude = 0;
    for (const DatasetYaml& yaml : reference.column_yaml) {
      columns.push_back(typed_samples_of(yaml));
      crude += columns.back().type == SampleType::kCrude ? 1 : 0;
    }
    if (crude == columns.size()) {
      return {};
    }
    for (std::size_t i = 0; crude > 0 && i < columns.size(); ++i) {
      if (columns[i].type == SampleType::kCrude) {
        throw Error(ErrorCode::kUnsupported,
                    "a join has datasets with crude samples, such as this one, and datasets with a "
                    "sample type: set a sample type for all of them, or for none",
                    {.path = reference.columns[i].path});
      }
    }
    return columns;
  }

  void open_join(const LeafReference& reference, PipelineLeaf& leaf) {
    std::vector<DatasetYaml> yaml = reference.column_yaml;
    JoinFunction function;
    std::string identity;
    if (std::optional<ForeignSamples> foreign = foreign_samples(reference)) {
      apply_foreign(*foreign, yaml, leaf);
      identity = std::move(foreign->identity);
      function = parts_by_column;
      leaf.subflavors = reference.columns.front().subflavors->dump();
    } else {
      function = joiner(reference);
    }
    if (options_.typed && !leaf.load) {
      leaf.typed.emplace();
      leaf.typed_columns = columns_of(reference);
      for (std::size_t i = 0; i < yaml.size(); ++i) {
        apply(leaf.typed_columns.empty() ? TypedSamples() : leaf.typed_columns[i], yaml[i]);
      }
      if (!leaf.typed_columns.empty() && function) {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("'{}' of DataOptions::joiners gets parts, but the datasets of the "
                                "join have a sample type: read this data with typed = false",
                                printable(reference.joiner.name)),
                    {.path = reference.path});
      }
      if (!leaf.typed_columns.empty()) {
        function = parts_by_column;
        leaf.subflavors = reference.columns.front().subflavors->dump();
      }
    }
    const std::size_t warnings = data_.warnings.size();
    const std::size_t broken = data_.broken.size();
    read_committed(dataset_paths(reference), [&] {
      data_.warnings.resize(warnings);
      data_.broken.resize(broken);
      std::vector<std::shared_ptr<const Webdataset>> columns;
      for (std::size_t i = 0; i < reference.columns.size(); ++i) {
        const JoinColumn& column = reference.columns[i];
        columns.push_back(webdataset(column.path, column.split_part, column.split_config,
                                     std::nullopt, leaf.subflavors, yaml.at(i),
                                     CheckShards::kAtOpening));
      }
      leaf.length = columns.front()->sample_count();
      leaf.primary = webdataset_store(columns.front()->shards().dataset_path);
      leaf.dataset =
          std::make_shared<const JoinedDataset>(reference, std::move(columns), function, identity);
    });
  }

  JoinFunction joiner(const LeafReference& reference) const {
    const auto found = options_.joiners.find(reference.joiner.name);
    if (found != options_.joiners.end()) {
      return found->second;
    }
    if (reference.joiner.kind == Joiner::Kind::kFunction) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the join names the function '{}': give it in DataOptions::joiners, "
                              "or in Python with sample_types= or allow_imports= of "
                              "get_train_dataset()",
                              printable(reference.joiner.name)),
                  {.path = reference.path});
    }
    return nullptr;
  }

  StoreFactory webdataset_store(const std::string& path) const {
    return [path, cache_dir = options_.open.cache_dir] {
      return std::make_unique<WebdatasetFileStore>(path, cache_dir);
    };
  }

  StoreFactory store(const AuxReference& aux) const {
    return [aux, cache_dir = options_.open.cache_dir] { return make_file_store(aux, cache_dir); };
  }

  const DataOptions& options_;
  PipelineData& data_;
};

}  // namespace

PipelineData open_data(const std::string& path, const DataOptions& options) {
  const Recipe recipe = load_recipe(path, options.split);
  PipelineData data;
  data.mixing = recipe.mixing;
  Opener opener(options, data);
  for (const LeafReference& reference : recipe.leaves) {
    data.leaves.push_back(opener.open(reference));
  }
  return data;
}

}  // namespace energon
