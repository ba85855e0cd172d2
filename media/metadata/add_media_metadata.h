// Stores what the images, sounds and videos of a prepared dataset or a folder of files are like
// (size, format, duration, …) in its index.sqlite, where pipelines filter samples by it
// (`media_filter` of a metadataset) and cookers look it up (FileStore::get_media_metadata())
// without reading the data. In Energon: energon prepare-media, with tables of the same form.

#pragma once

#include <string>

#include "media/metadata/media_filter.h"
#include "media/metadata/media_run.h"

namespace energon {

/// Reads the media of all shards of the prepared dataset `path`, whatever their split part, or all
/// media in a folder of files (DatasetKind::kFolder) and below it: of images the header, of sound
/// and video everything. Each gets a row, or a new one, named "key.part" or by the path relative to
/// the folder; other rows stay, also those of files that are gone. Links in a folder are followed,
/// except back. The data changes only at the end, all or nothing, and not at all if the filter
/// finds no media; index.uuid and joins stay valid. What cannot be read is counted and named in the
/// report. Of two runs at once the second is refused; where locks do not work, the first to end
/// counts. Throws Error:
///   kNotFound         no such folder, or a shard is missing
///   kInvalidArgument  tars that are not prepared, another process is at it, a bad filter
///   kUnsupported      index.sqlite has no table of parts: prepare again
///   kCorruptData      a shard or index.sqlite is damaged or was changed since it was prepared
///   kCancelled        options.stop was requested
///   kIo               also for a file that may not be read
MediaMetadataReport add_media_metadata(const std::string& path, const MediaFilter& filter,
                                       const MediaMetadataOptions& options = {});

}  // namespace energon
