// Opens the data that the user named, or finds samples in it. Shows warnings, and a progress bar
// while plain tars are indexed for the first time.

#pragma once

#include <string>
#include <vector>

#include "energon/read/find_sample.h"
#include "io/dataset/dataset_folder.h"
#include "io/recipe/metadataset.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/open_data.h"

namespace energon::cli {

/// Throws Error as open_split().
ShardSet open_shards(const std::string& path, OpenOptions options);

/// The same for any kind of data at `path`. Throws Error as open_data().
PipelineData open_pipeline_data(const std::string& path, DataOptions options);

/// The samples of the dataset of `leaf` that the pipeline uses.
SampleRange range_of(const PipelineLeaf& leaf);

/// Like find_sample() and find_samples(). Also throw Error (kCancelled) if a signal arrives.
FoundSample look_up_sample(const std::string& path, const std::string& key, FindOptions options);
std::vector<FoundSample> look_up_samples(const std::string& path, const std::string& key,
                                         FindOptions options);

}  // namespace energon::cli
