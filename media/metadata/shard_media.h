// Stores the metadata of the media in the shards of a prepared dataset. Internal to media/metadata.

#pragma once

#include <string>

#include "media/metadata/media_filter.h"
#include "media/metadata/media_run.h"

namespace energon {

/// As add_media_metadata() for a prepared dataset. `filter` is valid.
MediaMetadataReport add_media_of_shards(const std::string& path, const MediaFilter& filter,
                                        const MediaMetadataOptions& options);

}  // namespace energon
