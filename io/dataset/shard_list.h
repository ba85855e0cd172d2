// Which shards a path means, before any of them is opened. Private to io.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace energon {

struct FoundShards {
  /// Relative to the folder. Sorted by path component, as Energon does: all of "train/" comes
  /// before "train-extra/".
  std::vector<std::string> names;
  std::int64_t hidden_shards = 0;
  std::int64_t hidden_folders = 0;
  std::string first_hidden;  ///< relative to the folder

  /// Says what was passed over; nothing if nothing was.
  std::optional<std::string> warning() const;
};

/// Shards in `folder` and below it. Links to folders are followed, except to a folder that the path
/// is in already. Passed over and counted: shards and folders whose name begins with a dot; what
/// begins with .nv-meta is not counted. Throws Error (kIo, kNotFound).
FoundShards find_shards(const std::string& folder);

/// Whether find_shards() would find any; stops at the first.
bool has_shards(const std::string& folder);

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
