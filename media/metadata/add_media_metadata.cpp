#include "media/metadata/add_media_metadata.h"

#include "io/dataset/dataset_kind.h"
#include "media/metadata/folder_media.h"
#include "media/metadata/shard_media.h"

namespace energon {

MediaMetadataReport add_media_metadata(const std::string& path, const MediaFilter& filter,
                                       const MediaMetadataOptions& options) {
  validate(filter);
  return detect_dataset_kind(path) == DatasetKind::kFolder
             ? add_media_of_folder(path, filter, options)
             : add_media_of_shards(path, filter, options);
}

}  // namespace energon
