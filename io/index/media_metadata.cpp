#include "io/index/media_metadata.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

using MediaJson = nlohmann::json;

// As Python's repr(): the shortest digits that give the number back, with a point or an exponent.
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
        fail_media_json(fmt::format("has a field '{}' that is no integer", name));
      }
      value = found->get<std::int64_t>();
    }
  }

  void read(const char* name, std::optional<double>& value) const {
    if (const MediaJson* const found = find(name)) {
      if (!found->is_number() || !std::isfinite(found->get<double>())) {
        fail_media_json(fmt::format("has a field '{}' that is no number", name));
      }
      value = found->get<double>();
    }
  }

  void read(const char* name, std::string& value) const {
    if (const MediaJson* const found = find(name)) {
      if (!found->is_string()) {
        fail_media_json(fmt::format("has a field '{}' that is no text", name));
      }
      value = found->get<std::string>();
    }
  }

 private:
  // Null: absent.
  const MediaJson* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  const MediaJson& object_;
};

// Calls `field` with name and member of each field of this kind, in the order of Energon.
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
    fail_media_json(fmt::format("is of the type '{}', not image or av", printable(type)));
  }
  const MediaJson object = MediaJson::parse(json, nullptr, false);
  if (!object.is_object()) {
    fail_media_json(fmt::format("is no JSON object: {}", printable(json.substr(0, 100))));
  }
  const MediaJsonReader reader(object);
  for_each_media_field(metadata, [&](const char* name, auto& value) { reader.read(name, value); });
  return metadata;
}

}  // namespace energon
