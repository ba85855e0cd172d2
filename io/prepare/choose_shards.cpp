#include "io/prepare/choose_shards.h"

#include <regex>

#include <fmt/format.h>

#include "io/error.h"
#include "io/index/tar_index.h"

namespace energon {

FoundShards choose_shards(const std::string& folder,
                          const std::vector<std::string>& exclude_regexes) {
  FoundShards found = find_shards(folder);
  std::vector<std::string>& names = found.names;
  if (names.empty()) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("no shards to prepare: no .tar, .tgz, .tar.gz or .tar.zst; for media in "
                    "a folder of files: energon prepare-media {} "
                    "--media-metadata-by-extension",
                    printable(folder)),
        {.path = folder});
  }
  for (const std::string& text : exclude_regexes) {
    try {
      const std::regex regex(text);
      std::erase_if(names, [&](const std::string& name) { return std::regex_search(name, regex); });
    } catch (const std::regex_error& error) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a regular expression: {}",
                                                           printable(text), error.what()));
    }
  }
  if (names.empty()) {
    throw Error(ErrorCode::kNotFound,
                "no shards to prepare: no .tar, .tgz, .tar.gz or .tar.zst that is not excluded",
                {.path = folder});
  }
  check_index_paths_differ(names);
  return found;
}

}  // namespace energon
