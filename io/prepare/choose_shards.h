// Which files of a folder are prepared. Private to io.

#pragma once

#include <string>
#include <vector>

#include "io/dataset/shard_list.h"

namespace energon {

/// The shards in `folder`, without those whose name contains a match of one of the regular
/// expressions. At least one. Throws Error: kNotFound if there is none, kInvalidArgument for what
/// is no regular expression and for two shards with one index name; those of find_shards().
FoundShards choose_shards(const std::string& folder,
                          const std::vector<std::string>& exclude_regexes);

}  // namespace energon
