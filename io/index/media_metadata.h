// What a prepared dataset knows of an image, a sound or a video without reading it: one row of the
// table media_metadata (io/index/media_table.h).
//
// Names and form of the JSON are those of Energon 7.4: compact, in a fixed order, without absent
// fields. docs/formats/energon_files.md lists them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace energon
