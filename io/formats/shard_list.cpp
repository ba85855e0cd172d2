#include "io/formats/shard_list.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "io/error.h"
#include "io/formats/brace_expansion.h"
#include "io/formats/index_cache.h"
#include "io/formats/path_exists.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

// Longest folder that all of the absolute, normal `paths` are in.
fs::path common_folder(const std::vector<fs::path>& paths) {
  fs::path common = paths.front().parent_path();
  for (const fs::path& path : paths) {
    const fs::path folder = path.parent_path();
    const auto differ =
        std::mismatch(common.begin(), common.end(), folder.begin(), folder.end()).first;
    fs::path shorter;
    for (auto piece = common.begin(); piece != differ; ++piece) {
      shorter /= *piece;
    }
    common = shorter;
  }
  return common;
}

}  // namespace

std::vector<std::string> find_shards(const std::string& folder) {
  std::vector<std::string> names;
  try {
    for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::end(entry); ++entry) {
      const std::string name = entry->path().filename().string();
      if (entry->is_directory()) {
        // What begins like our own folder may be one that a prepare is filling at this moment.
        if (name.starts_with(".nv-meta")) {
          entry.disable_recursion_pending();
        }
      } else if (is_shard_name(name)) {
        if (!entry->is_regular_file()) {
          throw Error(ErrorCode::kInvalidArgument,
                      "has the name of a shard but is no file; a broken link?",
                      {.path = entry->path().string()});
        }
        names.push_back(entry->path().lexically_relative(folder).generic_string());
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw io_error("cannot list folder", error.code().value(), {.path = folder});
  }
  std::sort(names.begin(), names.end());
  return names;
}

ShardList list_shards(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    // A file may have braces in its name; a pattern whose text is a file's name means that file.
    const std::vector<std::string> expanded =
        path_exists(path) || path.find('{') == std::string::npos ? std::vector<std::string>{path}
                                                                 : expand_braces(path);
    for (const std::string& file : expanded) {
      if (!path_exists(file)) {
        throw Error(ErrorCode::kNotFound, "no such file or folder", {.path = file});
      }
      if (!fs::is_regular_file(file)) {
        throw Error(ErrorCode::kInvalidArgument,
                    "a list of shards holds files; give a folder alone, not in a list",
                    {.path = file});
      }
      if (!is_shard_name(file)) {
        throw Error(ErrorCode::kInvalidArgument,
                    "not a shard by its name: expected .tar, .tgz, .tar.gz or .tar.zst",
                    {.path = file});
      }
      files.push_back(fs::absolute(file).lexically_normal());
    }
  }
  if (files.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the list of shards is empty");
  }
  const fs::path folder = common_folder(files);
  ShardList list{.folder = folder.string(), .names = {}};
  for (const fs::path& file : files) {
    list.names.push_back(file.lexically_relative(folder).generic_string());
  }
  return list;
}

void check_shard_name(const std::string& name, const std::string& path) {
  const fs::path as_path(name);
  if (name.empty() || as_path.is_absolute() ||
      std::find(as_path.begin(), as_path.end(), "..") != as_path.end()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the shard name '{}' leads out of the dataset's folder", printable(name)),
        {.path = path});
  }
}

}  // namespace energon
