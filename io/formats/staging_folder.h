// Where prepare() builds what becomes `.nv-meta` and the indices: all or nothing. Private to
// io/formats.
//
// The folder is `.nv-meta.prepare` beside the future .nv-meta, so that moving is renaming. Its lock
// keeps two prepares apart, and goes with its holder: what a killed one left is removed by the
// next.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/bytes.h"
#include "io/unique_fd.h"

namespace energon {

class StagingFolder {
 public:
  /// Makes it, empty. Throws Error: kInvalidArgument if another process holds it, kIo.
  explicit StagingFolder(std::string dataset_path, unsigned folder_mode);
  /// Removes what was not committed.
  ~StagingFolder();
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;

  /// For a file of .nv-meta, by its final name.
  std::string meta_file(std::string_view name) const;
  void write_meta_file(std::string_view name, ByteView content, unsigned mode) const;

  /// For a file that goes elsewhere: where to build it. Thread-safe for different `number`s.
  std::string loose_file(std::int64_t number, std::string_view suffix) const;

  /// Moves the loose files `from` → `to`, then the files of .nv-meta, `last` at the very end; files
  /// that .nv-meta has besides stay. Removes `stale` first. Not to be interrupted: killed in
  /// between, it leaves a folder without `last`, which says that it is not prepared.
  void commit(const std::vector<std::pair<std::string, std::string>>& loose_files,
              const std::vector<std::string>& stale, std::string_view last);

 private:
  const std::string dataset_path_;
  const std::string path_;
  UniqueFd lock_;
  bool is_committed_ = false;
};

}  // namespace energon
