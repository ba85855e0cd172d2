#include "io/dataset/media_condition.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 8> kPropertyNames = {
    "width", "height", "aspect_ratio", "duration", "fps", "frames", "channels", "sample_rate"};

template <class Number>
std::optional<double> as_double(const std::optional<Number>& number) {
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

std::optional<double> aspect_ratio(const MediaMetadata& metadata) {
  if (!metadata.width || !metadata.height || *metadata.height <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(*metadata.width) / static_cast<double>(*metadata.height);
}

bool is_within(double value, const MediaBound& bound) {
  return (!bound.min || value >= *bound.min) && (!bound.max || value <= *bound.max);
}

bool fulfils_bound(std::span<const MediaMetadata> media, const MediaBound& bound) {
  bool has_property = false;
  for (const MediaMetadata& medium : media) {
    if (const auto value = value_of(medium, bound.property)) {
      if (!is_within(*value, bound)) {
        return false;
      }
      has_property = true;
    }
  }
  return has_property;
}

}  // namespace

std::string_view to_string(MediaProperty property) {
  return kPropertyNames.at(static_cast<std::size_t>(property));
}

std::optional<MediaProperty> media_property(std::string_view name) {
  const auto* const found = std::find(kPropertyNames.begin(), kPropertyNames.end(), name);
  return found == kPropertyNames.end()
             ? std::nullopt
             : std::optional(static_cast<MediaProperty>(found - kPropertyNames.begin()));
}

std::string to_string(const MediaCondition& condition) {
  std::vector<MediaBound> bounds = condition.bounds;
  std::stable_sort(bounds.begin(), bounds.end(), [](const MediaBound& a, const MediaBound& b) {
    return a.property < b.property;
  });
  std::string text = condition.part.empty() ? "" : printable(condition.part) + ": ";
  const char* separator = "";
  for (const MediaBound& bound : bounds) {
    text += std::exchange(separator, ", ");
    if (bound.min && bound.max) {
      text += fmt::format("{} <= {} <= {}", *bound.min, to_string(bound.property), *bound.max);
    } else {
      text += fmt::format("{} {} {}", to_string(bound.property),
                          bound.min ? ">=" : "<=", bound.min ? *bound.min : bound.max.value_or(0));
    }
  }
  return text;
}

std::optional<double> value_of(const MediaMetadata& metadata, MediaProperty property) {
  switch (property) {
    case MediaProperty::kWidth:
      return as_double(metadata.width);
    case MediaProperty::kHeight:
      return as_double(metadata.height);
    case MediaProperty::kAspectRatio:
      return aspect_ratio(metadata);
    case MediaProperty::kDuration:
      return metadata.video_duration ? metadata.video_duration : metadata.audio_duration;
    case MediaProperty::kFps:
      return metadata.video_fps;
    case MediaProperty::kFrames:
      return as_double(metadata.video_frames);
    case MediaProperty::kChannels:
      return as_double(metadata.audio_channels);
    case MediaProperty::kSampleRate:
      return as_double(metadata.audio_sample_rate);
  }
  return std::nullopt;
}

bool fulfils(std::span<const MediaMetadata> media, const MediaCondition& condition) {
  return std::all_of(condition.bounds.begin(), condition.bounds.end(),
                     [media](const MediaBound& bound) { return fulfils_bound(media, bound); });
}

}  // namespace energon
