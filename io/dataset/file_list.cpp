#include "io/dataset/file_list.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/dataset/linked_folders.h"
#include "io/error.h"

namespace energon {
namespace {

class FileSearch {
 public:
  /// `prefix` is that of the names found: empty, or it ends with a slash.
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
      // The second is what a prepare fills at this moment, or left when it was killed.
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
