#include "io/dataset/dataset_kind.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "io/dataset/brace_pattern.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/shard_list.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/index_cache.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

// Whether energon prepare-media, possibly killed, created the folder .nv-meta for files that are
// not shards. As in Energon, index.sqlite without .info.json is enough.
bool has_media_only(const std::string& meta) {
  if (path_exists(meta + "/index.sqlite")) {
    return true;
  }
  std::error_code error;
  fs::directory_iterator entry(meta, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (target_of_temporary(entry->path().filename().string()).empty()) {
      return false;
    }
  }
  return !error;
}

DatasetKind kind_of_folder(const std::string& path) {
  const std::string meta = path + "/.nv-meta";
  if (path_exists(meta + "/.info.json")) {
    return DatasetKind::kPrepared;  // even while a commit replaces it
  }
  complete_commit(path);
  const bool has_info = path_exists(meta + "/.info.json") || path_exists(meta + "/.info.yaml");
  if (!has_info && has_media_only(meta) && !has_shards(path)) {
    return DatasetKind::kFolder;  // a folder of files with media metadata
  }
  // Without .info.json, .nv-meta is an incomplete prepare; opening reports what is missing.
  if (path_exists(meta)) {
    return DatasetKind::kPrepared;
  }
  return has_shards(path) ? DatasetKind::kPlainTars : DatasetKind::kFolder;
}

DatasetKind kind_of_file(const std::string& path) {
  if (path.ends_with(".jsonl")) {
    return DatasetKind::kJsonl;
  }
  if (path.ends_with(".yaml")) {
    return DatasetKind::kMetadataset;
  }
  if (is_shard_name(path)) {
    return DatasetKind::kPlainTars;
  }
  const bool is_almost_yaml = path.ends_with(".yml") || path.ends_with(".json");
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("not a dataset: expected a name ending in .tar, .tgz, .tar.gz, .tar.zst, "
                          ".jsonl or .yaml{}",
                          is_almost_yaml ? "; a metadataset must be named .yaml" : ""),
              {.path = path});
}

// "d-{0..9}.tar", or "{a.tar,b.tar}".
bool is_pattern_of_tars(const std::string& path) {
  return path.find('{') != std::string::npos &&
         (is_shard_name(path) ||
          (path.ends_with('}') && is_shard_name(expand_braces(path).front())));
}

}  // namespace

std::string_view to_string(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::kPrepared:
      return "prepared dataset";
    case DatasetKind::kPlainTars:
      return "plain tars";
    case DatasetKind::kJsonl:
      return "JSONL file";
    case DatasetKind::kMetadataset:
      return "metadataset";
    case DatasetKind::kFolder:
      return "folder of files";
  }
  return "unknown";
}

DatasetKind detect_dataset_kind(const std::string& path) {
  check_path(path);
  refuse_url(path);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return kind_of_folder(path);
  }
  if (path_exists(path)) {
    return kind_of_file(path);
  }
  if (is_pattern_of_tars(path)) {
    return DatasetKind::kPlainTars;  // opening names the missing file
  }
  throw Error(ErrorCode::kNotFound, "no such file or folder", {.path = path});
}

bool is_metadataset(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".yaml") && fs::is_regular_file(path, ignored);
}

void refuse_url(std::string_view path, std::string_view place) {
  const std::size_t end = path.find("://");
  const auto is_scheme = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '-' || c == '.';
  };
  if (end == std::string_view::npos || end == 0 ||
      !std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(end), is_scheme)) {
    return;
  }
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("{}{}only local files are supported, not {}://; copy the data to a folder", place,
                  place.empty() ? "" : ": ", path.substr(0, end)),
      {.path = std::string(path)});
}

}  // namespace energon
