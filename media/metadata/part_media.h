// Reads the metadata of one part of a shard. Internal to media/metadata.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "io/file_source.h"
#include "io/index/sample_index.h"
#include "media/metadata/media_filter.h"
#include "media/metadata/media_run.h"

namespace energon {

/// No medium; its metadata; or why it cannot be read.
using PartMedia = std::variant<std::monostate, MediaMetadata, std::string>;

/// Reads parts of one tar, as few bytes of each as are enough. Not thread-safe.
class PartMediaReader {
 public:
  /// All arguments must outlive the reader.
  PartMediaReader(const FileSource& tar, const SampleIndex& index, const MediaFilter& filter,
                  const MediaMetadataOptions& options)
      : tar_(tar), index_(index), filter_(filter), options_(options) {}

  /// The part `name`, "key.part", which lies at `part`. Throws Error: kCorruptData if it does not
  /// lie there, kIo.
  PartMedia read(std::string_view name, const PartLocation& part);

  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  SharedBytes read_range(const ByteRange& range);
  MediaMetadata decode(MediaKind kind, const PartLocation& part, ByteView beginning);

  const FileSource& tar_;
  const SampleIndex& index_;
  const MediaFilter& filter_;
  const MediaMetadataOptions& options_;
  std::uint64_t bytes_read_ = 0;
};

/// What the headers and, of sound and video, all packets of `file` say. Throws Error as the
/// decoders. Thread-safe.
MediaMetadata read_media_metadata(MediaKind kind, ByteView file, const DecodeLimits& limits = {});

}  // namespace energon
