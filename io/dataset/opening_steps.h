// Steps of opening a set of shards that prepared datasets and plain tars have in common. Private to
// io.

#pragma once

#include <cstddef>
#include <functional>

#include "io/dataset/broken_shards.h"
#include "io/dataset/dataset_folder.h"

namespace energon {

/// Runs `open` for each shard of `set` in parallel and reports progress. Throws the Error of the
/// first shard that has one, or leaves out broken shards, as the options say.
void open_shards(ShardSet& set, const OpenOptions& options,
                 const std::function<void(ShardFile&, std::size_t)>& open,
                 const CountOfBroken& count_of_broken);

/// Warns of shards without samples and of shards that are the same file. Throws Error
/// (kInvalidArgument) if there is no sample at all.
void check_not_empty(ShardSet& set);

}  // namespace energon
