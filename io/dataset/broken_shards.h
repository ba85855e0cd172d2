// Shards of a split that cannot be opened, under BrokenShards::kSkip. Private to io.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "io/dataset/dataset_folder.h"

namespace energon {

/// The number of samples in a shard that cannot be opened. Throws Error if it is not known.
using CountOfBroken = std::function<std::int64_t(const ShardFile&)>;

/// Marks the shards with errors as broken; `errors` has one entry per shard. Throws the first error
/// that is not a shard's fault, an Error if the count of a broken shard is not known, or the first
/// error if no shard is left.
void mark_broken(ShardSet& set, const std::vector<std::exception_ptr>& errors,
                 const CountOfBroken& count);

/// Excludes the samples of broken shards, so that the other samples keep their positions.
void exclude_broken(ShardSet& set);

}  // namespace energon
