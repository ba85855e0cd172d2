// Reads the metadata of one part of a shard, or of one file. Internal to media/metadata.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "io/bytes.h"
#include "io/file.h"
#include "io/index/media_metadata.h"
#include "io/index/sample_index.h"
#include "media/metadata/add_media_metadata.h"
#include "media/metadata/media_filter.h"

namespace energon {

/// monostate if the part is not a medium; its metadata; or the reason why it cannot be read.
using PartMedia = std::variant<std::monostate, MediaMetadata, std::string>;

/// Reads no more of each medium than needed. Not thread-safe.
class MediaReader {
 public:
  /// The arguments must outlive the reader.
  MediaReader(const MediaFilter& filter, const MediaMetadataOptions& options)
      : filter_(filter), options_(options) {}

  /// Reads the part `name`, "key.part", of `tar`, which is at `part`. `index` finds its sample.
  /// Throws Error: kCorruptData if the part is not there, kIo.
  PartMedia read_part(std::string_view name, const PartLocation& part, const FileSource& tar,
                      const SampleIndex& index);

  /// Reads the file `name`, which is at `path`. Throws Error (kIo).
  PartMedia read_file(std::string_view name, const std::string& path);

  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  SharedBytes read_range(const FileSource& file, const ByteRange& range);
  PartMedia tell(std::string_view name, const FileSource& file, const ByteRange& content,
                 ByteView beginning);
  MediaMetadata decode(MediaKind kind, const FileSource& file, const ByteRange& content,
                       ByteView beginning);

  const MediaFilter& filter_;
  const MediaMetadataOptions& options_;
  std::uint64_t bytes_read_ = 0;
};

/// Reads metadata from the headers of `file` and, for sound and video, from all packets. Throws
/// Error as the decoders. Thread-safe.
MediaMetadata read_media_metadata(MediaKind kind, ByteView file, const DecodeLimits& limits = {});

}  // namespace energon
