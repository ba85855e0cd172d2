// Opens the data of a pipeline: a dataset, plain tars, a JSONL file, or a metadataset with
// everything it refers to.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "energon/read/joined_dataset.h"
#include "energon/read/webdataset.h"
#include "io/dataset/dataset_folder.h"
#include "io/json.h"
#include "io/recipe/metadataset.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

/// A dataset whose samples a class or a function of the program is to make, because dataset.yaml or
/// the metadataset names one that this library does not have.
struct ForeignDataset {
  struct Column {
    std::string name = {};  ///< set if `join` is a mapping, else empty
    std::string path = {};  ///< the folder of the dataset
    std::string split_part = {};
    std::optional<std::string> split_config = std::nullopt;
    BoxedJson subflavors = {};  ///< of dataset.yaml and the metadatasets; a JSON object
    /// Path of dataset.yaml. Empty if there is no file, or only the one that prepare() writes.
    std::string yaml_path = {};
    BoxedJson yaml = {};      ///< the entries of dataset.yaml; a JSON object
    bool is_foreign = false;  ///< whether dataset.yaml names what this library does not have
  };
  std::size_t leaf = 0;                         ///< position among the datasets of the recipe
  std::string path = {};                        ///< for a join, the metadataset
  std::vector<Column> columns = {};             ///< one; for a join, each of its datasets
  std::optional<Joiner> joiner = std::nullopt;  ///< for a join
};

/// How the program makes the samples of a ForeignDataset.
struct ForeignSamples {
  LoadFunction load = nullptr;
  bool is_crude = false;  ///< whether cookers, if there are any, take what `load` returns
  /// Of each column, the parts that `load` needs; unset means all.
  std::vector<std::optional<std::vector<std::string>>> parts = {};
  /// Names the class and its settings. A state fits only data with the same identity.
  std::string identity = {};
};

struct DataOptions {
  /// Split of a metadataset, or part of a dataset; a split in a reference takes precedence.
  std::string split = "train";
  /// Files in .nv-meta of the dataset itself; unset means dataset.yaml and split.yaml. Only
  /// prepared datasets have them, metadatasets do not.
  std::optional<std::string> dataset_config = std::nullopt;
  std::optional<std::string> split_config = std::nullopt;
  /// Merged into the subflavors of all samples; these take precedence.
  BoxedJson subflavors = {};
  /// Options for all tars: cache folder, threads, progress, exclusions. Its split fields and
  /// check_shards are not used.
  OpenOptions open = {};
  /// At opening: every shard is compared with what was prepared before the first batch, for some
  /// system calls per shard. The datasets of a join are always checked at opening.
  CheckShards check_shards = CheckShards::kAtFirstRead;
  VerifyChecksums verify_checksums = VerifyChecksums::kAlways;
  /// Reading a tar sample or a JSONL line with more bytes than this is an error; no memory is
  /// allocated for it.
  std::uint64_t max_sample_bytes = WebdatasetOptions{}.max_sample_bytes;
  /// Samples have the type and the fields that the dataset.yaml of their dataset specifies
  /// (sample_type and field_map). Samples are read in one piece, and other parts are dropped
  /// afterwards. Datasets without a type, or with crude samples, return their parts, decoded.
  bool typed = false;
  /// Functions for joins whose metadataset names a joiner, by the name of the class or function.
  /// For a class without an entry, the fields of all columns are merged, like Energon's
  /// Sample.from_joined; a function without an entry is an Error.
  std::map<std::string, JoinFunction> joiners = {};
  /// Called at opening, if samples are typed, for each dataset with a class or function that this
  /// library does not have, and for each join. If it is unset or returns nullopt, the dataset is
  /// opened as far as this library can, or refused.
  std::function<std::optional<ForeignSamples>(const ForeignDataset& dataset)> foreign = nullptr;
};

/// Opens all leaves. Throws Error like load_recipe() and open_split(), with the path of the leaf;
/// if samples are typed, also as typed_samples_of() (io/recipe/dataset_yaml.h), and kUnsupported
/// for a join of which some datasets have a sample type and some have crude samples.
PipelineData open_data(const std::string& path, const DataOptions& options = {});

}  // namespace energon
