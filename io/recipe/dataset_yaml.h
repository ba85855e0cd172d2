// `.nv-meta/dataset.yaml`: how a dataset is to be read.
//
// In Energon the file names the class that makes samples, and any of its constructor arguments. As
// in Energon, values in the file override the loader's options. Samples here are plain parts, so
// settings that make typed samples are not applied, and a warning says so. An unknown key is an
// error.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/boxed_json.h"
#include "io/recipe/metadataset.h"

namespace energon {

struct DatasetYaml {
  BoxedJson subflavors = {};  ///< a JSON object
  /// Name of the split file. Here and below, absent means not set in the file.
  std::optional<std::string> split_config = std::nullopt;
  /// The parts that samples keep.
  std::optional<std::vector<std::string>> part_filter = std::nullopt;

  // For training. An empty inner optional stands for null.
  std::optional<ShuffleMultiplier> shuffle_over_epochs = std::nullopt;
  std::optional<std::optional<std::int64_t>> max_samples_per_sequence = std::nullopt;
  std::optional<std::optional<std::int64_t>> parallel_shard_iters = std::nullopt;  ///< null: 16

  std::vector<std::string> warnings = {};  ///< settings in the file that are not applied
};

/// The content that prepare() writes: samples have their parts as stored.
std::string_view crude_dataset_yaml();

/// Reads the file `name` of the dataset in `folder`. Without a name, reads dataset.yaml, which may
/// be missing. Throws Error: kNotFound if a named file is missing, kInvalidArgument with place and
/// line, kIo.
DatasetYaml read_dataset_yaml(const std::string& folder, const std::optional<std::string>& name);

}  // namespace energon
