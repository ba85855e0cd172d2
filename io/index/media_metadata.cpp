#include "io/index/media_metadata.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

using MediaJson = nlohmann::json;

// As Python's repr(): the fewest digits that round-trip, with a point or an exponent.
std::string python_number(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

class MediaJsonWriter {
 public:
  void add(std::string_view name, const std::optional<std::int64_t>& value) {
    if (value) {
      add_text(name, fmt::format("{}", *value));
    }
  }

  void add(std::string_view name, const std::optional<double>& value) {
    if (value && std::isfinite(*value)) {
      add_text(name, python_number(*value));
    }
  }

  void add(std::string_view name, const std::string& value) {
    if (!value.empty()) {
      add_text(name, MediaJson(value).dump(-1, ' ', true, MediaJson::error_handler_t::replace));
    }
  }

  std::string finish() { return "{" + text_ + "}"; }

 private:
  void add_text(std::string_view name, std::string_view value) {
    text_ += fmt::format("{}\"{}\":{}", text_.empty() ? "" : ",", name, value);
  }

  std::string text_;
};

[[noreturn]] void fail_media_json(const std::string& problem) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("index database: media metadata {}; run energon prepare-media again", problem));
}

class MediaJsonReader {
 public:
  explicit MediaJsonReader(const MediaJson& object) : object_(object) {}

  void read(const char* name, std::optional<std::int64_t>& value) const {
    if (const MediaJson* const found = find(name)) {
      if (!found->is_number_integer() ||
          (found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX)) {
        fail_media_json(fmt::format("has a field '{}' that is not an integer", name));
      }
      value = found->get<std::int64_t>();
    }
  }

  void read(const char* name, std::optional<double>& value) const {
    if (const MediaJson* const found = find(name)) {
      if (!found->is_number() || !std::isfinite(found->get<double>())) {
        fail_media_json(fmt::format("has a field '{}' that is not a number", name));
      }
      value = found->get<double>();
    }
  }

  void read(const char* name, std::string& value) const {
    if (const MediaJson* const found = find(name)) {
      if (!found->is_string()) {
        fail_media_json(fmt::format("has a field '{}' that is not a string", name));
      }
      value = found->get<std::string>();
    }
  }

 private:
  // Null means absent.
  const MediaJson* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  const MediaJson& object_;
};

// Calls `field` with name and member of each field of this kind, in Energon's order.
template <class Metadata, class Field>
void for_each_media_field(Metadata& metadata, Field&& field) {
  if (metadata.kind == MediaKind::kImage) {
    field("width", metadata.width);
    field("height", metadata.height);
    field("format", metadata.format);
    field("mode", metadata.mode);
    return;
  }
  field("video_duration", metadata.video_duration);
  field("video_num_frames", metadata.video_frames);
  field("video_fps", metadata.video_fps);
  field("video_width", metadata.width);
  field("video_height", metadata.height);
  field("audio_duration", metadata.audio_duration);
  field("audio_channels", metadata.audio_channels);
  field("audio_sample_rate", metadata.audio_sample_rate);
  field("audio_num_samples", metadata.audio_samples);
}

}  // namespace

std::string_view to_string(MediaKind kind) { return kind == MediaKind::kImage ? "image" : "av"; }

std::string to_media_json(const MediaMetadata& metadata) {
  MediaJsonWriter writer;
  for_each_media_field(metadata,
                       [&](const char* name, const auto& value) { writer.add(name, value); });
  return writer.finish();
}

MediaMetadata parse_media_json(std::string_view type, std::string_view json) {
  MediaMetadata metadata;
  if (type == to_string(MediaKind::kAv)) {
    metadata.kind = MediaKind::kAv;
  } else if (type != to_string(MediaKind::kImage)) {
    fail_media_json(fmt::format("has type '{}', expected image or av", printable(type)));
  }
  const MediaJson object = MediaJson::parse(json, nullptr, false);
  if (!object.is_object()) {
    fail_media_json(fmt::format("is not a JSON object: {}", printable(json.substr(0, 100))));
  }
  const MediaJsonReader reader(object);
  for_each_media_field(metadata, [&](const char* name, auto& value) { reader.read(name, value); });
  return metadata;
}

// --- Conditions ---

namespace {

// In the order of the enum.
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
