// Where prepare() builds what becomes `.nv-meta` and the indices: all or nothing. Private to
// io.
//
// The folder is `.nv-meta.prepare.<id>` beside the future .nv-meta, so that moving is renaming; the
// id is random, so two prepares never write into one folder. The lock of the dataset's folder keeps
// two prepares apart where locks work; where they don't, both run, and the later one's files stay
// (io/dataset/prepare_commit.h). What a killed prepare left is removed by the next one, once it has
// not been changed for kAbandonedAfter.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/dataset/prepare_commit.h"
#include "io/unique_fd.h"

namespace energon {

class StagingFolder {
 public:
  /// Completes what an earlier prepare has published, and makes the folder, empty. Throws Error:
  /// kInvalidArgument if another process holds the lock, kIo.
  StagingFolder(std::string dataset_path, unsigned folder_mode);
  /// Removes what was not committed.
  ~StagingFolder();
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;

  /// Where to build a file of .nv-meta, by its final name.
  std::string meta_file(std::string_view name);
  void write_meta_file(std::string_view name, ByteView content, unsigned mode);

  /// Where to build a file that goes elsewhere. Thread-safe for different `number`s.
  std::string loose_file(std::int64_t number, std::string_view suffix) const;
  /// That the loose file goes to `to`, relative to the dataset's folder.
  void move_loose_file(std::int64_t number, std::string_view suffix, const std::string& to);
  /// That `path`, relative to the dataset's folder, must not be there any more.
  void remove_file(const std::string& path);

  /// Replaces the old files by the new ones: the loose ones, then those of .nv-meta in the order in
  /// which they were named; files that .nv-meta has besides stay. Killed at any instant, it leaves
  /// the old set or the new one for whoever opens the dataset. Throws Error (kIo); the dataset is
  /// then as it was, unless complete_commit() fails.
  void commit();

 private:
  std::string staged(std::string_view name) const;
  void check_targets() const;
  void stage_beside(CommitStep& step);

  const std::string dataset_path_;
  const std::string id_;
  const std::string path_;
  const unsigned folder_mode_;
  UniqueFd lock_;
  std::vector<CommitStep> steps_;
  std::vector<CommitStep> last_steps_;
  std::vector<std::string> temporary_;  // beside their targets; removed unless committed
  bool is_committed_ = false;
};

}  // namespace energon
