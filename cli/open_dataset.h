// Opening what the user named, with what a person wants to see meanwhile: warnings, and a progress
// bar while plain tars are indexed for the first time.

#pragma once

#include <optional>
#include <string>

#include "io/formats/dataset_folder.h"

namespace energon::cli {

/// `options` without a function for progress. Throws Error as open_split().
ShardSet open_shards(const std::string& path, OpenOptions options);
ShardSet open_shards(const std::string& path, const std::string& split_part,
                     const std::optional<std::string>& cache_dir);

}  // namespace energon::cli
