// Leaves out the samples whose media do not fulfil a condition. Private to io.

#pragma once

#include <string>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/dataset_info.h"

namespace energon {

/// Adds to set.excludes, unsorted, each sample of the shards of `set` that does not fulfil
/// options.media_filter, or of whose media nothing is known. Reads `index_path` in parallel. Broken
/// shards are passed over. Throws Error as SampleIndex; kInvalidArgument, which says what to
/// prepare, if there is no media metadata, and if no sample is left.
void exclude_by_media(const OpenOptions& options, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set);

}  // namespace energon
