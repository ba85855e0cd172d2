// `.nv-meta/dataset.yaml`: how to read a dataset.
//
// In Energon the file names the class that makes samples, and any of its constructor arguments. As
// in Energon, values in the file override the loader's options. Samples are plain parts unless
// typed samples are requested (typed_samples_of()), so settings of typed samples are stored as
// written, with a warning that they are not applied. An unknown key is an error, unless the class
// is not Energon's: then it may be an argument of that class.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"
#include "io/recipe/metadataset.h"
#include "io/recipe/typed_samples.h"

namespace energon {

/// The file's settings of typed samples, as written. typed_samples_of() validates them.
struct SampleSettings {
  /// Path of the file. Empty if there is no file, or only the one that prepare() writes.
  std::string path = {};
  /// The class of sample_type, or of the dataset in older files; includes the module unless it is
  /// Energon's.
  std::optional<std::string> type_name = std::nullopt;
  std::optional<SampleType> type = std::nullopt;  ///< unset if not one of our types
  /// Fields and their expressions.
  std::optional<std::vector<std::pair<std::string, std::string>>> field_map = std::nullopt;
  std::optional<std::string> sample_loader = std::nullopt;  ///< a Python function
  bool has_part_filter = false;
  /// Whether a class or a function outside this library makes or selects the samples: the class of
  /// the dataset, sample_type, sample_loader or part_filter.
  bool is_foreign = false;
  /// Why the settings above are invalid, with place and line.
  std::optional<std::string> problem = std::nullopt;
  /// The warning about sample settings in DatasetYaml::warnings, and the one that replaces it for
  /// typed samples. Empty if there is none.
  std::string warning = {};
  std::string typed_warning = {};
};

struct DatasetYaml {
  BoxedJson subflavors = {};  ///< a JSON object
  /// Name of the split file. Here and below, unset means not set in the file.
  std::optional<std::string> split_config = std::nullopt;
  /// The parts that samples keep.
  std::optional<std::vector<std::string>> part_filter = std::nullopt;

  // For training. An empty inner optional means null.
  std::optional<ShuffleOverEpochs> shuffle_over_epochs = std::nullopt;
  std::optional<std::optional<std::int64_t>> max_samples_per_sequence = std::nullopt;
  std::optional<std::optional<std::int64_t>> parallel_shard_iters = std::nullopt;  ///< null: 16

  SampleSettings samples = {};

  /// Settings in the file that are not applied to samples of plain parts.
  std::vector<std::string> warnings = {};
};

/// The content that prepare() writes: samples contain their parts as stored.
std::string_view crude_dataset_yaml();

/// Reads the file `name` of the dataset in `folder`. Without a name, reads dataset.yaml, which may
/// be missing. Throws Error: kNotFound if a named file is missing, kInvalidArgument with place and
/// line, kIo.
DatasetYaml read_dataset_yaml(const std::string& folder, const std::optional<std::string>& name);

/// All entries of the file at `path` (SampleSettings::path), including those that this library does
/// not know: a JSON object. Throws Error as read_dataset_yaml().
BoxedJson read_dataset_yaml_entries(const std::string& path);

// --- Typed samples ---

/// The sample type and fields that `yaml` configures; crude samples if it names no type. Throws
/// Error with the file's path: kInvalidArgument for an unknown type, unknown or missing fields, and
/// a malformed expression; kUnsupported for a sample_loader, which is a Python function.
TypedSamples typed_samples_of(const DatasetYaml& yaml);

/// A dataset.yaml for these samples, as Energon 7.4.1's prepare writes it. Throws as validate().
std::string dataset_yaml_of(const TypedSamples& samples);

}  // namespace energon
