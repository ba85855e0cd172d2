// Adds media metadata to an `index.sqlite`: all rows or none. media/metadata/add_media_metadata.h
// computes the rows.
//
// The rows go into a copy of the database. That of a prepared dataset is published as a prepare
// publishes its files (io/dataset/prepare_commit.h); other files keep their content: index.uuid
// too, because samples and their places do not change, so join indices and the summary of the
// shards stay valid. In a folder of files that is no dataset, `.nv-meta/index.sqlite` has nothing
// but these rows; the new one is built under a temporary name and takes the place of the old one at
// the end, as io/shared_folder.h says. So readers see the old file or the new one, whichever
// process is killed, and when. Rows are only added or replaced, as in Energon: those of files that
// are gone stay.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/dataset/dataset_info.h"
#include "io/file.h"
#include "io/index/media_metadata.h"
#include "io/index/media_table.h"
#include "io/prepare/staging_folder.h"
#include "io/shared_folder.h"

namespace energon {

// --- Prepared datasets ---

/// Holds the lock of the dataset's folder. Not thread-safe, but may move between threads.
class MediaUpdate {
 public:
  /// Completes an earlier prepare and copies the database, in which the tables are then made if
  /// they are missing. Throws Error: kNotFound, kInvalidArgument if the folder is not prepared or
  /// another process prepares it; kCorruptData, kIo.
  explicit MediaUpdate(const std::string& dataset_path);

  const DatasetInfo& info() const { return info_; }
  /// The published database, for reading.
  const std::string& index_path() const { return index_path_; }

  /// Adds the row of the part `name`, "key.part", or replaces it. Throws Error (kIo, kCorruptData).
  void add(std::string_view name, const MediaMetadata& metadata);

  /// Notes the filter of this run: "EXTENSION", "HEADER" or "GLOB", and its patterns.
  void add_filter(std::string_view strategy, std::string_view patterns);

  /// Publishes the rows; nothing can be added afterwards. Throws Error: kInvalidArgument if another
  /// process prepared the dataset meanwhile, kIo. The dataset is then as it was.
  void commit();

 private:
  std::string version() const;

  const std::string dataset_path_;
  const std::string index_path_;
  StagingFolder staging_;
  const std::string version_;  // of the files that the rows belong to
  const DatasetInfo info_;
  const unsigned file_mode_;
  std::string copy_;
  std::optional<MediaTableWriter> writer_;  // after staging_: closed before that is removed
};

// --- Folders of files ---

/// Holds the lock of the folder. Not thread-safe, but may move between threads.
class FolderMediaUpdate {
 public:
  /// Begins with the rows that there are. Throws Error: kInvalidArgument if another process is at
  /// it, kCorruptData if the present index.sqlite is damaged; kNotFound, kIo.
  explicit FolderMediaUpdate(const std::string& folder);
  FolderMediaUpdate(const FolderMediaUpdate&) = delete;
  FolderMediaUpdate& operator=(const FolderMediaUpdate&) = delete;

  /// The present database, for reading with MediaIndex; nothing if there are no rows yet.
  const std::optional<std::string>& index_path() const { return index_path_; }

  /// Adds the row of the file `name`, its path relative to the folder, or replaces it. Throws Error
  /// (kIo, kCorruptData).
  void add(std::string_view name, const MediaMetadata& metadata);

  /// Notes the filter of this run: "EXTENSION", "HEADER" or "GLOB", and its patterns.
  void add_filter(std::string_view strategy, std::string_view patterns);

  /// Publishes the rows; nothing can be added afterwards. Throws Error: kInvalidArgument if another
  /// process changed index.sqlite meanwhile, which happens where locks do not work; kIo. The folder
  /// is then as it was.
  void commit();

 private:
  // The folder .nv-meta. One that was made here and is empty is removed.
  class MetaFolder {
   public:
    explicit MetaFolder(std::string path);
    ~MetaFolder();
    MetaFolder(const MetaFolder&) = delete;
    MetaFolder& operator=(const MetaFolder&) = delete;

    std::string index() const { return path_ + "/index.sqlite"; }

   private:
    const std::string path_;
    bool is_made_ = false;
  };

  const UniqueFd lock_;
  const MetaFolder meta_;
  const std::optional<FileIdentity> version_;  // of the database that the new one replaces
  NewFile file_;
  std::optional<std::string> index_path_;
  std::optional<MediaTableWriter> writer_;  // after file_: closed before that is removed
};

}  // namespace energon
