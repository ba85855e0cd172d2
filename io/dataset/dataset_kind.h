// Detects the kind of data at a path. As in Energon, except that plain tars are a separate kind,
// and that a folder without any recognized content is a plain folder.

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
  kFolder,       ///< any other folder: not a dataset, but files to look up by name
};

/// "prepared dataset", "plain tars", "JSONL file", "metadataset" or "folder of files".
std::string_view to_string(DatasetKind kind);

/// If there is no .nv-meta, lists the folder at `path` until it finds a shard; reads no file.
/// Throws Error: kNotFound, kInvalidArgument if it is a file of unknown kind, kUnsupported if it is
/// a URL, kIo.
DatasetKind detect_dataset_kind(const std::string& path);

/// Whether `path` is a file whose name ends in .yaml.
bool is_metadataset(const std::string& path);

/// Throws Error (kUnsupported) if `path` is a URL ("msc://…"), because only local files are
/// supported. `place` is where the URL was found, for the message, or "" for the user's own
/// argument.
void refuse_url(std::string_view path, std::string_view place = {});

}  // namespace energon
