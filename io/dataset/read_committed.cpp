#include "io/dataset/read_committed.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include "io/dataset/prepare_commit.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {
namespace {

// Of what an open dataset is made, as far as a prepare changes it.
std::string version_of(const std::string& dataset_path) {
  const std::string meta = dataset_path + "/.nv-meta";
  std::string version;
  struct stat status {};
  if (::stat((meta + "/.info.json").c_str(), &status) == 0) {
    version += fmt::format("|{}|{}|{}|{}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                           status.st_mtim.tv_nsec);
  }
  try {
    version += "|" + read_file(meta + "/index.uuid");
  } catch (const Error&) {  // older datasets have none
  }
  return version;
}

bool is_unchanged(const std::string& dataset_path, const std::string& version) {
  return published_commit(dataset_path).empty() && version_of(dataset_path) == version;
}

}  // namespace

void read_committed(const std::string& dataset_path, const std::function<void()>& read) {
  constexpr int kAttempts = 10;
  for (int i = 0; i < kAttempts; ++i) {
    complete_commit(dataset_path);
    const std::string before = version_of(dataset_path);
    try {
      read();
      if (is_unchanged(dataset_path, before)) {
        return;
      }
    } catch (const Error&) {
      if (is_unchanged(dataset_path, before)) {
        throw;
      }
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              "the dataset is prepared again and again while it is read; wait until that ends",
              {.path = dataset_path});
}

void read_committed(std::span<const std::string> dataset_paths, const std::function<void()>& read) {
  if (dataset_paths.empty()) {
    read();
    return;
  }
  read_committed(dataset_paths.front(), [&] { read_committed(dataset_paths.subspan(1), read); });
}

}  // namespace energon
