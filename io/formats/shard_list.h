// Which shards a path means, before any of them is opened. Private to io/formats.

#pragma once

#include <string>
#include <vector>

namespace energon {

/// Shards below `folder`, relative to it and sorted; .nv-meta and symbolic links to folders are not
/// entered. Throws Error (kIo, kNotFound).
std::vector<std::string> find_shards(const std::string& folder);

struct ShardList {
  std::string folder;              ///< common folder of all, absolute
  std::vector<std::string> names;  ///< relative to it
};

/// Each of `paths` is a file, or a brace pattern of files; the order is kept. Throws Error:
/// kNotFound naming the file that is absent, kInvalidArgument.
ShardList list_shards(const std::vector<std::string>& paths);

/// A name from a file that others wrote must not lead out of the dataset's folder. Throws Error
/// (kInvalidArgument) with `path`, where it was found.
void check_shard_name(const std::string& name, const std::string& path);

}  // namespace energon
