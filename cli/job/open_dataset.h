// Opens the data that the user named and shows warnings, and a progress bar while plain tars are
// indexed for the first time.

#pragma once

#include <string>

#include "io/dataset/dataset_folder.h"
#include "wrappers/recipe/open_data.h"

namespace energon::cli {

/// Throws Error as open_split().
ShardSet open_shards(const std::string& path, OpenOptions options);

/// The same for any kind of data at `path`. Throws Error as open_data().
PipelineData open_pipeline_data(const std::string& path, DataOptions options);

}  // namespace energon::cli
