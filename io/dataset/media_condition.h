// Which samples a dataset gives, by what is known of their images, sound and video (energon
// prepare-media): `media_filter` of a metadataset.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/index/media_metadata.h"

namespace energon {

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
