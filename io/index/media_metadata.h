// Metadata of an image, sound or video in a prepared dataset, one row of the table media_metadata
// (io/index/media_table.h), and conditions on metadata that select samples.
//
// The JSON has the names and form of Energon 7.4: compact, in a fixed order, without absent fields.
// docs/formats/energon_files.md lists them.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace energon {

enum class MediaKind : std::uint8_t {
  kImage,
  kAv,  ///< audio, video or both
};

/// The value of the column metadata_type: "image", "av".
std::string_view to_string(MediaKind kind);

/// Unset or empty means unknown or not applicable.
struct MediaMetadata {
  MediaKind kind = MediaKind::kImage;

  std::optional<std::int64_t> width = std::nullopt;   ///< pixels of the image, or of a video frame
  std::optional<std::int64_t> height = std::nullopt;  ///< likewise
  std::string format = {};  ///< Pillow's name of the image format: "JPEG", "PNG", "WEBP"
  std::string mode = {};    ///< Pillow's name of the image mode: "RGB", "L", "P", "I;16"

  std::optional<double> video_duration = std::nullopt;  ///< seconds
  std::optional<std::int64_t> video_frames = std::nullopt;
  std::optional<double> video_fps = std::nullopt;       ///< frames per second, on average
  std::optional<double> audio_duration = std::nullopt;  ///< seconds
  std::optional<std::int64_t> audio_channels = std::nullopt;
  std::optional<std::int64_t> audio_sample_rate = std::nullopt;  ///< per second
  std::optional<std::int64_t> audio_samples = std::nullopt;      ///< per channel

  bool operator==(const MediaMetadata&) const = default;
};

/// The column metadata_json, such as {"width":32,"height":16,"format":"JPEG","mode":"RGB"}. Numbers
/// are formatted as in Python: 30.0, 1e-05. Numbers that are not finite are omitted.
std::string to_media_json(const MediaMetadata& metadata);

/// Parses a row. Ignores unknown fields, because newer versions may have more. Throws Error
/// (kCorruptData) for an unknown type, invalid JSON or anything but an object, and a field of the
/// wrong type.
MediaMetadata parse_media_json(std::string_view type, std::string_view json);

// --- Conditions ---
//
// Which samples of a dataset are used: `media_filter` of a metadataset.

enum class MediaProperty : std::uint8_t {
  kWidth,        ///< pixels of an image or a video frame
  kHeight,       ///< likewise
  kAspectRatio,  ///< width / height
  kDuration,     ///< of the video or, without one, of the audio, in seconds
  kFps,          ///< frames per second
  kFrames,       ///< of a video
  kChannels,     ///< of the sound
  kSampleRate,   ///< audio samples per second
};

/// As in the names of bounds: "width" in "min_width".
std::string_view to_string(MediaProperty property);

/// The property called `name`, or nullopt if there is none.
std::optional<MediaProperty> media_property(std::string_view name);

/// Inclusive bounds; at least one is set.
struct MediaBound {
  MediaProperty property = MediaProperty::kWidth;
  std::optional<double> min = std::nullopt;
  std::optional<double> max = std::nullopt;

  bool operator==(const MediaBound&) const = default;
};

/// The condition that the media of a sample must satisfy. A bound is satisfied if at least one
/// medium of the sample has the property, and all that have it are within the bound. So for an
/// image with an audio file, the width is that of the image.
struct MediaCondition {
  std::string part = {};  ///< only parts with this name count; empty means all
  std::vector<MediaBound> bounds = {};

  bool operator==(const MediaCondition&) const = default;
};

/// One line, the same for equal conditions: "jpg: width >= 256, 0.5 <= aspect_ratio <= 2".
std::string to_string(const MediaCondition& condition);

/// The value of `property`, or nullopt if it is unknown or does not apply to the medium.
std::optional<double> value_of(const MediaMetadata& metadata, MediaProperty property);

/// Whether a sample with these media satisfies all bounds.
bool fulfils(std::span<const MediaMetadata> media, const MediaCondition& condition);

}  // namespace energon
