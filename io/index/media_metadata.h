// What a prepared dataset knows of an image, a sound or a video without reading it: one row of the
// table media_metadata (io/index/media_table.h); and conditions on that, by which samples are
// chosen.
//
// Names and form of the JSON are those of Energon 7.4: compact, in a fixed order, without absent
// fields. docs/formats/energon_files.md lists them.

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
  kAv,  ///< sound, video or both
};

/// As in the column metadata_type: "image", "av".
std::string_view to_string(MediaKind kind);

/// Absent or empty: not known, or the part has no such thing.
struct MediaMetadata {
  MediaKind kind = MediaKind::kImage;

  std::optional<std::int64_t> width = std::nullopt;   ///< pixels of the image, or of a video frame
  std::optional<std::int64_t> height = std::nullopt;  ///< likewise
  std::string format = {};  ///< of an image, as Pillow names it: "JPEG", "PNG", "WEBP"
  std::string mode = {};    ///< of an image, as Pillow names it: "RGB", "L", "P", "I;16"

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
/// are written as Python does: 30.0, 1e-05. Those that are not finite are left out.
std::string to_media_json(const MediaMetadata& metadata);

/// The value of a row. Fields with other names are passed over: newer versions may have more.
/// Throws Error (kCorruptData) for another type, for what is no JSON object, and for a field that
/// holds something else.
MediaMetadata parse_media_json(std::string_view type, std::string_view json);

// --- Conditions ---
//
// Which samples a dataset gives: `media_filter` of a metadataset.

enum class MediaProperty : std::uint8_t {
  kWidth,        ///< pixels of an image or a video frame
  kHeight,       ///< likewise
  kAspectRatio,  ///< width / height
  kDuration,     ///< seconds: of the video, or else of the sound
  kFps,          ///< frames per second
  kFrames,       ///< of a video
  kChannels,     ///< of the sound
  kSampleRate,   ///< of the sound, per second
};

/// As in the names of bounds: "width" of "min_width".
std::string_view to_string(MediaProperty property);

/// The property `name`; nothing if there is none.
std::optional<MediaProperty> media_property(std::string_view name);

/// Bounds that include their ends; at least one is there.
struct MediaBound {
  MediaProperty property = MediaProperty::kWidth;
  std::optional<double> min = std::nullopt;
  std::optional<double> max = std::nullopt;

  bool operator==(const MediaBound&) const = default;
};

/// What the media of a sample must fulfil. A sample fulfils a bound if some of its media has the
/// property, and all that have it are within the bound. So of an image with a sound beside it,
/// the width is that of the image.
struct MediaCondition {
  std::string part = {};  ///< only parts of this name count; empty: all
  std::vector<MediaBound> bounds = {};

  bool operator==(const MediaCondition&) const = default;
};

/// In one line, the same for equal conditions: "jpg: width >= 256, 0.5 <= aspect_ratio <= 2".
std::string to_string(const MediaCondition& condition);

/// The value of `property`; nothing if it is not known or the medium has no such thing.
std::optional<double> value_of(const MediaMetadata& metadata, MediaProperty property);

/// Whether a sample with these media fulfils all bounds.
bool fulfils(std::span<const MediaMetadata> media, const MediaCondition& condition);

}  // namespace energon
