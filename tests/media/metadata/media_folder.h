// A prepared dataset of images, sounds and videos, and the rows of its media metadata.

#pragma once

#include <map>
#include <string>
#include <string_view>

#include "media/metadata/add_media_metadata.h"
#include "tests/support/temp_dir.h"

namespace energon::testing {

/// The path of a file in data/.
std::string vector_path(std::string_view name);

/// The files of the shard data/media.tgz: names and contents.
const std::map<std::string, std::string>& vector_files();

/// A shard of these files.
std::string shard_of(const std::map<std::string, std::string>& files);

/// A folder "d" with the shard a.tar of vector_files(), or other shards, prepared.
class MediaFolder {
 public:
  MediaFolder();
  /// Names of shards, and their files.
  explicit MediaFolder(const std::map<std::string, std::map<std::string, std::string>>& shards);

  std::string path() const { return folder_.file("d"); }
  std::string file(std::string_view name) const { return path() + "/" + std::string(name); }
  /// add_media_metadata() with two threads.
  MediaMetadataReport add(const MediaFilter& filter, MediaMetadataOptions options = {}) const;

 private:
  TempDir folder_;
};

/// The table media_metadata: names, and "type\tjson".
std::map<std::string, std::string> media_rows(const std::string& dataset_path);
/// The table media_filters: "strategy patterns".
std::string media_filters(const std::string& dataset_path);

}  // namespace energon::testing
