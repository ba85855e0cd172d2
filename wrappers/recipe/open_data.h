// From a path to what a pipeline reads: a dataset, plain tars, a JSONL file, or a metadataset with
// all that it refers to.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "energon/read/joined_dataset.h"
#include "energon/read/webdataset.h"
#include "io/dataset/dataset_folder.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

struct DataOptions {
  /// Split of a metadataset, or part of a dataset; what a reference says itself wins.
  std::string split = "train";
  /// For all tars: cache folder, threads, progress, exclusions. Its split fields are not used.
  OpenOptions open = {};
  VerifyChecksums verify_checksums = VerifyChecksums::kAlways;
  /// A sample of a tar or a line of a JSONL file with more bytes than this is an error when it is
  /// read, not an allocation.
  std::uint64_t max_sample_bytes = WebdatasetOptions{}.max_sample_bytes;
  /// For joins whose metadataset names a joiner, by the class's or function's name. A class that is
  /// not here merges the fields of all columns, as Energon's Sample.from_joined does; a function
  /// that is not here is an Error.
  std::map<std::string, JoinFunction> joiners = {};
};

/// Opens all leaves. Throws Error as load_recipe() and open_split(), with the path of the leaf.
PipelineData open_data(const std::string& path, const DataOptions& options = {});

}  // namespace energon
