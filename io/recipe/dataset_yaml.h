// `.nv-meta/dataset.yaml`: how a dataset says that it is to be read.
//
// In Energon the file names the class that makes samples and any argument of its constructor; what
// stands there wins over what the loader was called with, and so it does here. Samples are their
// parts here, so what makes typed samples of them is not applied, and said so in a warning. An
// unknown key is an error.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/recipe/metadataset.h"

namespace energon {

struct DatasetYaml {
  nlohmann::ordered_json subflavors = nlohmann::ordered_json::object();
  /// Name of the split file; absent: not said, as in all of these.
  std::optional<std::string> split_config = std::nullopt;
  /// The parts that samples have.
  std::optional<std::vector<std::string>> part_filter = std::nullopt;

  // For training. An inner nothing stands for null.
  std::optional<ShuffleMultiplier> shuffle_over_epochs = std::nullopt;
  std::optional<std::optional<std::int64_t>> max_samples_per_sequence = std::nullopt;
  std::optional<std::optional<std::int64_t>> parallel_shard_iters = std::nullopt;  ///< null: 16

  std::vector<std::string> warnings = {};  ///< what is in the file and not applied
};

/// The file `name` of the dataset in `folder`; without a name dataset.yaml, which may be missing.
/// Throws Error: kNotFound if a named file is missing, kInvalidArgument with place and line, kIo.
DatasetYaml read_dataset_yaml(const std::string& folder, const std::optional<std::string>& name);

}  // namespace energon
