// Adds media metadata to the `index.sqlite` of a prepared dataset: all rows or none. Private to the
// library; media/metadata/add_media_metadata.h computes the rows.
//
// The rows go into a copy of the database, which is published as a prepare publishes its files
// (io/dataset/prepare_commit.h). So readers see the old file or the new one, whichever process is
// killed, and when. Other files keep their content: index.uuid too, because samples and their
// places do not change, so join indices and the summary of the shards stay valid.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/dataset/dataset_info.h"
#include "io/index/media_metadata.h"
#include "io/index/media_table.h"
#include "io/prepare/staging_folder.h"

namespace energon {

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

}  // namespace energon
