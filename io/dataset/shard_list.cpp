#include "io/dataset/shard_list.h"

#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/dataset/brace_pattern.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"

namespace energon {

namespace fs = std::filesystem;

// --- Links to folders ---
//
// Keeps a walk that follows links to folders from running forever.

namespace {

// The chain of folders of a walk, from its start to the folder being listed. Not thread-safe.
class LinkedFolders {
 public:
  /// Enters `folder`. Returns false, and leave() must not be called, if the walk is already in it
  /// because a link leads back. `is_below_link` is true if the path from the start of the walk
  /// contains a link. Throws Error: kNotFound, kIo; kInvalidArgument for more than 100,000 folders
  /// below links.
  bool enter(const std::string& folder, bool is_below_link);

  /// Leaves the folder that was entered last.
  void leave() { open_.pop_back(); }

 private:
  std::int64_t below_links_ = 0;
  std::vector<std::pair<dev_t, ino_t>> open_;
};

bool LinkedFolders::enter(const std::string& folder, bool is_below_link) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    throw io_error("cannot list folder", errno, {.path = folder});
  }
  const std::pair<dev_t, ino_t> identity(status.st_dev, status.st_ino);
  if (std::find(open_.begin(), open_.end(), identity) != open_.end()) {
    return false;
  }
  // Folders that link to each other are entered once per permutation.
  constexpr std::int64_t kMostBelowLinks = 100'000;
  if (is_below_link && ++below_links_ > kMostBelowLinks) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("links lead to more than {} folders, perhaps in circles: remove links "
                            "between folders, or name a folder without such links",
                            kMostBelowLinks),
                {.path = folder});
  }
  open_.push_back(identity);
  return true;
}

// --- Shards ---

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

// Compares folder by folder: "a/z" comes before "a-b/c", though '-' is less than '/'.
bool is_before(const std::string& a, const std::string& b) {
  const auto key = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c) + 1; };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [&](char x, char y) { return key(x) < key(y); });
}

class ShardSearch {
 public:
  explicit ShardSearch(bool stops_at_first) : stops_at_first_(stops_at_first) {}

  /// `prefix` is prepended to the names found; it is empty or ends with a slash. `is_below_link` is
  /// true if the path from the start of the search contains a link.
  void enter(const std::string& folder, const std::string& prefix, bool is_below_link) {
    if (!folders_.enter(folder, is_below_link)) {
      return;
    }
    for (const auto& entry : fs::directory_iterator(folder)) {
      visit(entry, prefix, is_below_link);
      if (stops_at_first_ && !found.names.empty()) {
        break;
      }
    }
    folders_.leave();
  }

  FoundShards found;
  std::vector<std::string> indices;

 private:
  void visit(const fs::directory_entry& entry, const std::string& prefix, bool is_below_link) {
    const std::string name = entry.path().filename().string();
    const bool is_hidden = name.starts_with('.');
    std::error_code ignored;  // of a link that leads nowhere
    if (entry.is_directory(ignored)) {
      // Folders named like our own may be in use by a running prepare.
      if (name.starts_with(".nv-meta")) {
        return;
      }
      if (is_hidden) {
        note_hidden(prefix + name, found.hidden_folders);
      } else {
        enter(entry.path().string(), prefix + name + "/", is_below_link || entry.is_symlink());
      }
    } else if (name.ends_with(".tar.idx") && !is_hidden) {
      indices.push_back(prefix + name);
    } else if (is_shard_name(name)) {
      if (is_hidden) {
        note_hidden(prefix + name, found.hidden_shards);
      } else if (!entry.is_regular_file(ignored)) {
        throw Error(ErrorCode::kInvalidArgument,
                    "has the name of a shard but is not a file; a broken link?",
                    {.path = entry.path().string()});
      } else {
        found.names.push_back(prefix + name);
      }
    }
  }

  void note_hidden(const std::string& name, std::int64_t& count) {
    ++count;
    if (found.first_hidden.empty() || is_before(name, found.first_hidden)) {
      found.first_hidden = name;
    }
  }

  const bool stops_at_first_;
  LinkedFolders folders_;
};

// The `indices` that belong to none of `shards`, sorted.
std::vector<std::string> find_orphans(std::vector<std::string> indices,
                                      const std::vector<std::string>& shards) {
  std::unordered_set<std::string> known;
  for (const std::string& shard : shards) {
    known.insert(tar_index_path(shard));
  }
  std::erase_if(indices, [&](const std::string& index) { return known.contains(index); });
  std::sort(indices.begin(), indices.end(), is_before);
  return indices;
}

FoundShards search(const std::string& folder, bool stops_at_first) {
  ShardSearch search(stops_at_first);
  try {
    search.enter(folder, "", false);
  } catch (const fs::filesystem_error& error) {
    throw io_error("cannot list folder", error.code().value(), {.path = folder});
  }
  if (!stops_at_first) {
    search.found.orphan_indices = find_orphans(std::move(search.indices), search.found.names);
  }
  return std::move(search.found);
}

}  // namespace

std::vector<std::string> FoundShards::warnings() const {
  std::vector<std::string> texts;
  if (hidden_shards + hidden_folders > 0) {
    texts.push_back(fmt::format(
        "names that begin with a dot are skipped: {} shard{} and {} folder{}; the first is "
        "'{}'",
        hidden_shards, hidden_shards == 1 ? "" : "s", hidden_folders,
        hidden_folders == 1 ? "" : "s", printable(first_hidden)));
  }
  if (orphan_indices.size() == 1) {
    texts.push_back(
        fmt::format("the index '{}' has no shard next to it: the shard was deleted or is not "
                    "visible to this process; if this is intended, remove the index",
                    printable(orphan_indices.front())));
  } else if (!orphan_indices.empty()) {
    texts.push_back(fmt::format(
        "{} indices have no shard next to them, the first is '{}': the shards were deleted or are "
        "not visible to this process; if this is intended, remove the indices",
        orphan_indices.size(), printable(orphan_indices.front())));
  }
  return texts;
}

FoundShards find_shards(const std::string& folder) {
  FoundShards found = search(folder, false);
  std::sort(found.names.begin(), found.names.end(), is_before);
  return found;
}

bool has_shards(const std::string& folder) { return !search(folder, true).names.empty(); }

ShardList list_shards(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    // File names may contain braces; a pattern that is the name of an existing file means that
    // file.
    const std::vector<std::string> expanded =
        path_exists(path) || path.find('{') == std::string::npos ? std::vector<std::string>{path}
                                                                 : expand_braces(path);
    for (const std::string& file : expanded) {
      if (!path_exists(file)) {
        throw Error(ErrorCode::kNotFound, "no such file or folder", {.path = file});
      }
      if (!fs::is_regular_file(file)) {
        throw Error(ErrorCode::kInvalidArgument,
                    "a list of shards must contain files; pass a folder by itself, not in a list",
                    {.path = file});
      }
      if (!is_shard_name(file)) {
        throw Error(ErrorCode::kInvalidArgument,
                    "not a shard: expected a name ending in .tar, .tgz, .tar.gz or .tar.zst",
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
  if (!name.empty() && name.front() != '/' && name.find("..") == std::string::npos) {
    return;  // the common case, and much faster
  }
  const fs::path as_path(name);
  if (name.empty() || as_path.is_absolute() ||
      std::find(as_path.begin(), as_path.end(), "..") != as_path.end()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the shard name '{}' leads out of the dataset's folder", printable(name)),
        {.path = path});
  }
}

// --- Files of any kind ---

namespace {

class FileSearch {
 public:
  /// `prefix` is prepended to the names found; it is empty or ends with a slash.
  void enter(const std::string& folder, const std::string& prefix, bool is_below_link) {
    if (!folders_.enter(folder, is_below_link)) {
      return;
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      visit(entry, prefix, is_below_link);
    }
    folders_.leave();
  }

  std::vector<std::string> found;

 private:
  void visit(const std::filesystem::directory_entry& entry, const std::string& prefix,
             bool is_below_link) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;  // of a link that leads nowhere
    if (entry.is_directory(ignored)) {
      // The second kind belongs to a running or killed prepare.
      if (name == ".nv-meta" || name.starts_with(".nv-meta.")) {
        return;
      }
      enter(entry.path().string(), prefix + name + "/", is_below_link || entry.is_symlink());
    } else if (entry.is_regular_file(ignored) ||
               (entry.is_symlink(ignored) && !entry.exists(ignored))) {
      found.push_back(prefix + name);
    }
  }

  LinkedFolders folders_;
};

}  // namespace

std::vector<std::string> list_files(const std::string& folder) {
  FileSearch search;
  try {
    search.enter(folder, "", false);
  } catch (const std::filesystem::filesystem_error& error) {
    throw io_error("cannot list folder", error.code().value(), {.path = folder});
  }
  std::sort(search.found.begin(), search.found.end());
  return std::move(search.found);
}

}  // namespace energon
