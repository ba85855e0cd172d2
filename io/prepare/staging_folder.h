// The folder in which prepare() builds `.nv-meta` and the indices, to publish all of them or none.
//
// The folder is `.nv-meta.prepare.<id>` next to the future .nv-meta, so a move is a rename. The id
// is random, so two prepares never write into the same folder. Where locks work, the lock of the
// dataset's folder prevents a second prepare; where they do not, both run, and the files of the
// later one win (io/dataset/prepare_commit.h). The next prepare removes the leftovers of a killed
// one once they are unchanged for kAbandonedAfter.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/dataset/prepare_commit.h"
#include "io/file.h"

namespace energon {

class StagingFolder {
 public:
  /// Completes an earlier published prepare, then creates the folder, empty. Throws Error:
  /// kInvalidArgument if another process holds the lock, kIo.
  StagingFolder(std::string dataset_path, unsigned folder_mode);
  /// Removes everything unless committed.
  ~StagingFolder();
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;

  /// Registers a file of .nv-meta by its final name, and returns the path to build it at.
  std::string meta_file(std::string_view name);
  void write_meta_file(std::string_view name, ByteView content, unsigned mode);

  /// The path at which to build a file that belongs outside .nv-meta. Thread-safe for different
  /// `number`s.
  std::string loose_file(std::int64_t number, std::string_view suffix) const;
  /// Registers a move of the loose file to `to`, relative to the dataset's folder.
  void move_loose_file(std::int64_t number, std::string_view suffix, const std::string& to);
  /// Registers the removal of `path`, relative to the dataset's folder.
  void remove_file(const std::string& path);

  /// Replaces the old files with the new ones: first the loose files, then those of .nv-meta in the
  /// order of their registration. Other files in .nv-meta stay. If the process is killed at any
  /// time, the next process to open the dataset finds the old set or the new one. Throws Error
  /// (kIo); the dataset is then unchanged, unless complete_commit() failed.
  void commit();

 private:
  std::string staged(std::string_view name) const;
  void check_targets() const;
  void stage_beside(CommitStep& step);

  const std::string dataset_path_;
  const std::string id_;
  const std::string path_;
  const unsigned folder_mode_;
  const UniqueFd lock_;
  std::vector<CommitStep> steps_;
  std::vector<CommitStep> last_steps_;
  std::vector<std::string> temporary_;  // next to their targets; removed unless committed
  bool is_committed_ = false;
};

/// Acquires the advisory lock of the folder `path`; closing the descriptor releases it. Where locks
/// do not work, another process may also hold it (io/shared_folder.h). `what` is being prepared:
/// "folder", "metadataset". Throws Error: kInvalidArgument if another process has the lock;
/// kNotFound, kIo.
UniqueFd lock_folder(const std::string& path, std::string_view what);

}  // namespace energon
