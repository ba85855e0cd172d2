#include "energon/process/oom_kills.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace energon {
namespace {

/// The value of `oom_kill` in a file of lines "name value".
std::optional<std::uint64_t> count_in(const std::string& file) {
  std::ifstream lines(file);
  std::string name;
  for (std::uint64_t value = 0; lines >> name >> value;) {
    if (name == "oom_kill") {
      return value;
    }
  }
  return std::nullopt;
}

/// Where the count may be. In a container the group's path may be that of the host, while its files
/// lie at the mount point.
std::vector<std::string> candidates(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::vector<std::string> files;
  std::ifstream groups(root + "/proc/self/cgroup");  // lines "number:controllers:path"
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);
    std::string number;
    std::string controllers;
    std::string path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (path == "/") {
      path.clear();
    }
    if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      for (const std::string& group : {path, std::string()}) {
        files.push_back(mounts + "/memory" + group + "/memory.oom_control");
      }
    } else if (number == "0" && controllers.empty()) {
      for (const std::string& group : {path, "/unified" + path, std::string()}) {
        files.push_back(mounts + group + "/memory.events");
      }
    }
  }
  return files;
}

}  // namespace

OomKills::OomKills(const std::string& root) {
  for (const std::string& file : candidates(root == "/" ? "" : root)) {
    if (count_in(file)) {
      file_ = file;
      break;
    }
  }
  mark();
}

void OomKills::mark() {
  if (!file_.empty()) {
    marked_ = count_in(file_).value_or(marked_);
  }
}

std::uint64_t OomKills::since_mark() const {
  const std::uint64_t now = file_.empty() ? marked_ : count_in(file_).value_or(marked_);
  return now > marked_ ? now - marked_ : 0;
}

}  // namespace energon
