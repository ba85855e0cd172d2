// Stores the metadata of the media in a folder of files. Internal to media/metadata.

#pragma once

#include <string>

#include "media/metadata/media_filter.h"
#include "media/metadata/media_run.h"

namespace energon {

/// As add_media_metadata() for a folder of files. `filter` is valid.
MediaMetadataReport add_media_of_folder(const std::string& path, const MediaFilter& filter,
                                        const MediaMetadataOptions& options);

}  // namespace energon
