#include "cli/job/path_option.h"

#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/dataset/brace_pattern.h"
#include "io/error.h"
#include "io/index/index_cache.h"

namespace energon::cli {
namespace {

// The folder that all `patterns` begin with, with a slash at its end.
std::string_view common_folder(const std::vector<std::string>& patterns) {
  std::string_view folder = patterns.front();
  folder = folder.substr(0, folder.find('{'));
  for (const std::string& pattern : patterns) {
    while (!pattern.starts_with(folder) || !folder.ends_with('/')) {
      folder.remove_suffix(1);  // ends at the root at the latest
    }
  }
  return folder;
}

// Between braces a comma separates names, but collapse_names() does not escape the commas in names.
std::string with_escaped_commas(std::string_view pattern) {
  std::string escaped;
  for (const char c : pattern) {
    if (c == ',') {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

std::string join_tars(std::vector<std::string> paths) {
  if (paths.size() == 1) {
    return paths.front();
  }
  for (std::string& path : paths) {
    if (!is_shard_name(path)) {
      throw CLI::ValidationError(
          "PATH", fmt::format("several paths must all be tars, '{}' is none", printable(path)));
    }
    path = std::filesystem::absolute(path).lexically_normal().native();
  }
  const std::vector<std::string> patterns = collapse_names(paths);
  if (patterns.size() == 1) {
    return patterns.front();
  }
  const std::string_view folder = common_folder(patterns);
  std::vector<std::string> rest;
  rest.reserve(patterns.size());
  for (const std::string& pattern : patterns) {
    rest.push_back(with_escaped_commas(std::string_view(pattern).substr(folder.size())));
  }
  return fmt::format("{}{{{}}}", folder, fmt::join(rest, ","));
}

}  // namespace

void add_path(CLI::App& command, std::string& path, PathCount count) {
  if (count == PathCount::kOne) {
    command
        .add_option("PATH", path,
                    "Dataset, metadataset, JSONL file, folder of tars, tar, or brace pattern")
        ->required();
    return;
  }
  command
      .add_option_function<std::vector<std::string>>(
          "PATH", [&path](const std::vector<std::string>& paths) { path = join_tars(paths); },
          "Dataset, metadataset, JSONL file, folder of tars, tars, or brace pattern")
      ->required();
}

}  // namespace energon::cli
