// Adds media metadata to an `index.sqlite`: all rows or none. media/metadata/add_media_metadata.h
// computes the rows.
//
// Rows are written to a copy of the database. In a prepared dataset, the copy is published like the
// files of a prepare (io/dataset/prepare_commit.h). All other files keep their content, even
// index.uuid: samples and their places do not change, so join indices and the shard summary stay
// valid. In a folder of files that is not a dataset, `.nv-meta/index.sqlite` contains only these
// rows; the new file is built under a temporary name and replaces the old one at the end
// (io/shared_folder.h). So readers see the old file or the new one, no matter which process is
// killed, or when. As in Energon, rows are only added or replaced: rows of deleted files stay.

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
  /// Completes an earlier prepare, copies the database and creates missing tables in the copy.
  /// Throws Error: kNotFound, kInvalidArgument if the folder is not prepared or another process
  /// prepares it; kCorruptData, kIo.
  explicit MediaUpdate(const std::string& dataset_path);

  const DatasetInfo& info() const { return info_; }
  /// The published database, for reading.
  const std::string& index_path() const { return index_path_; }

  /// Adds the row of the part `name`, "key.part", or replaces it. Throws Error (kIo, kCorruptData).
  void add(std::string_view name, const MediaMetadata& metadata);

  /// Records the filter of this run: "EXTENSION", "HEADER" or "GLOB", and its patterns.
  void add_filter(std::string_view strategy, std::string_view patterns);

  /// Publishes the rows; no row can be added afterwards. Throws Error: kInvalidArgument if another
  /// process prepared the dataset meanwhile, kIo. After an Error, the dataset is unchanged.
  void commit();

 private:
  std::string version() const;

  const std::string dataset_path_;
  const std::string index_path_;
  StagingFolder staging_;
  const std::string version_;  // version of the files that the rows belong to
  const DatasetInfo info_;
  const unsigned file_mode_;
  std::string copy_;
  std::optional<MediaTableWriter> writer_;  // after staging_: closed before staging_ is removed
};

// --- Folders of files ---

/// Holds the lock of the folder. Not thread-safe, but may move between threads.
class FolderMediaUpdate {
 public:
  /// Starts from the existing rows. Throws Error: kInvalidArgument if another process is updating
  /// the folder, kCorruptData if the existing index.sqlite is damaged; kNotFound, kIo.
  explicit FolderMediaUpdate(const std::string& folder);
  FolderMediaUpdate(const FolderMediaUpdate&) = delete;
  FolderMediaUpdate& operator=(const FolderMediaUpdate&) = delete;

  /// The existing database, for reading with MediaIndex; nullopt if there are no rows yet.
  const std::optional<std::string>& index_path() const { return index_path_; }

  /// Adds the row of the file `name`, its path relative to the folder, or replaces it. Throws Error
  /// (kIo, kCorruptData).
  void add(std::string_view name, const MediaMetadata& metadata);

  /// Records the filter of this run: "EXTENSION", "HEADER" or "GLOB", and its patterns.
  void add_filter(std::string_view strategy, std::string_view patterns);

  /// Publishes the rows; no row can be added afterwards. Throws Error: kInvalidArgument if another
  /// process changed index.sqlite meanwhile, which happens where locks do not work; kIo. After an
  /// Error, the folder is unchanged.
  void commit();

 private:
  // The folder .nv-meta. Removed on destruction if this object created it and it is empty.
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
  const std::optional<FileIdentity> version_;  // identity of the database to replace
  NewFile file_;
  std::optional<std::string> index_path_;
  std::optional<MediaTableWriter> writer_;  // after file_: closed before file_ is removed
};

}  // namespace energon
