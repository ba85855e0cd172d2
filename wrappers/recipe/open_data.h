// Opens the data of a pipeline: a dataset, plain tars, a JSONL file, or a metadataset with
// everything it refers to.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "energon/read/joined_dataset.h"
#include "energon/read/webdataset.h"
#include "io/dataset/dataset_folder.h"
#include "io/json.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

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
};

/// Opens all leaves. Throws Error like load_recipe() and open_split(), with the path of the leaf;
/// if samples are typed, also as typed_samples_of() (io/recipe/dataset_yaml.h), and kUnsupported
/// for a join of which some datasets have a sample type and some have crude samples.
PipelineData open_data(const std::string& path, const DataOptions& options = {});

}  // namespace energon
