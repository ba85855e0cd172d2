// What a path is: the first question of whatever opens one. As in Energon, except that plain tars
// are a kind of their own and that a folder without anything known in it is a plain folder.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace energon {

enum class DatasetKind : std::uint8_t {
  kPrepared,     ///< a folder with .nv-meta
  kPlainTars,    ///< a tar, a brace pattern of tars, or a folder with tars and without .nv-meta
  kJsonl,        ///< a file x.jsonl
  kMetadataset,  ///< a file x.yaml
  kFolder,       ///< any other folder: no dataset, but files to look up by name
};

/// "prepared dataset", "plain tars", "JSONL file", "metadataset" or "folder of files".
std::string_view to_string(DatasetKind kind);

/// Lists the folder at `path` until it meets a shard, if there is no .nv-meta; reads no file.
/// Throws Error: kNotFound, kInvalidArgument if it is a file of no known kind, kUnsupported if it
/// is a URL, kIo.
DatasetKind detect_dataset_kind(const std::string& path);

/// Whether `path` is a file whose name ends in .yaml.
bool is_metadataset(const std::string& path);

/// Throws Error (kUnsupported) if `path` is a URL ("msc://…"): only local files are read here.
/// `place` says in the message where it was found; empty if the user gave it.
void refuse_url(std::string_view path, std::string_view place = {});

}  // namespace energon
