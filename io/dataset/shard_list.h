// Lists the shards at a path, or the files of a folder for lookups by name, without opening them.

#pragma once

#include <cstdint>
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
  /// Indices without a tar; relative to the folder, sorted like the shards.
  std::vector<std::string> orphan_indices;

  /// Warnings about skipped names and indices without a tar, if any.
  std::vector<std::string> warnings() const;
};

/// Shards in `folder` and below it. Follows links to folders, except to a folder that already
/// contains the link. Skips and counts shards and folders whose name begins with a dot; skips names
/// that begin with .nv-meta without counting them. Throws Error: kIo, kNotFound; kInvalidArgument
/// for more than 100,000 folders below links.
FoundShards find_shards(const std::string& folder);

/// Whether find_shards() would find a shard; stops at the first.
bool has_shards(const std::string& folder);

struct ShardList {
  std::string folder;              ///< common folder of all, absolute
  std::vector<std::string> names;  ///< relative to it
};

/// Each of `paths` is a file or a brace pattern of files; order is preserved. Throws Error:
/// kNotFound with the missing file, kInvalidArgument.
ShardList list_shards(const std::vector<std::string>& paths);

/// Throws Error (kInvalidArgument) if `name` leads out of the dataset's folder: names in files are
/// untrusted. The error names `path`, the file that contains the name.
void check_shard_name(const std::string& name, const std::string& path);

// --- Files of any kind ---

/// The files in `folder` and below it, relative to it, sorted by their bytes. Follows links to
/// folders, except to a folder that already contains the link; lists dangling links, but not pipes,
/// sockets or devices. Leaves out the folders .nv-meta and .nv-meta.* at any depth. Throws Error:
/// kNotFound, kIo; kInvalidArgument for more than 100,000 folders below links.
std::vector<std::string> list_files(const std::string& folder);

}  // namespace energon
