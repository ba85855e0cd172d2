#include "media/metadata/media_filter.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "io/error.h"
#include "media/av/av_container.h"
#include "media/image/image_info.h"
#include "media/metadata/name_pattern.h"

namespace energon {
namespace {

constexpr std::array<std::string_view, 12> kImageExtensions = {
    "bmp", "gif", "ico", "j2k", "jp2", "jpeg", "jpg", "jpx", "png", "tif", "tiff", "webp"};
constexpr std::array<std::string_view, 13> kAvExtensions = {
    "aac", "avi", "flac", "flv", "m4a", "m4v", "mkv", "mov", "mp3", "mp4", "ogg", "wav", "webm"};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return lower;
}

// Tags before the frames, or a frame of layer 3.
bool is_mp3(ByteView beginning) {
  const std::string_view text = as_text(beginning);
  return text.starts_with("ID3") || text.starts_with("\xFF\xFB") || text.starts_with("\xFF\xF3") ||
         text.starts_with("\xFF\xF2");
}

}  // namespace

std::string_view to_string(MediaStrategy strategy) {
  constexpr std::array<std::string_view, 3> kNames = {"EXTENSION", "HEADER", "GLOB"};
  return kNames.at(static_cast<std::size_t>(strategy));
}

MediaFilter glob_filter(std::string_view patterns) {
  MediaFilter filter{.strategy = MediaStrategy::kGlob};
  while (true) {
    const std::size_t comma = patterns.find(',');
    filter.patterns.emplace_back(patterns.substr(0, comma));
    if (comma == std::string_view::npos) {
      return filter;
    }
    patterns.remove_prefix(comma + 1);
  }
}

void validate(const MediaFilter& filter) {
  const bool is_glob = filter.strategy == MediaStrategy::kGlob;
  const auto is_empty = [](const std::string& pattern) { return pattern.empty(); };
  if (is_glob && (filter.patterns.empty() ||
                  std::any_of(filter.patterns.begin(), filter.patterns.end(), is_empty))) {
    throw Error(ErrorCode::kInvalidArgument,
                "a filter of media by patterns needs patterns that are not empty, such as "
                "*.jpg,*.png");
  }
  if (!is_glob && !filter.patterns.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a filter of media by {} has no patterns, got {}",
                            lower_case(to_string(filter.strategy)), filter.patterns.size()));
  }
}

std::optional<MediaKind> media_kind_of_name(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);  // npos: all of it
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) {
    return std::nullopt;
  }
  const std::string extension = lower_case(name.substr(dot + 1));
  if (std::find(kImageExtensions.begin(), kImageExtensions.end(), extension) !=
      kImageExtensions.end()) {
    return MediaKind::kImage;
  }
  if (std::find(kAvExtensions.begin(), kAvExtensions.end(), extension) != kAvExtensions.end()) {
    return MediaKind::kAv;
  }
  return std::nullopt;
}

std::optional<MediaKind> media_kind_of_bytes(ByteView beginning) {
  // First, because AVIF and HEIC lie in the container of MP4.
  if (image_format_of(beginning) || !foreign_image_format(beginning).empty()) {
    return MediaKind::kImage;
  }
  if (recognise_av_container(beginning) != AvContainer::kOther || is_mp3(beginning)) {
    return MediaKind::kAv;
  }
  return std::nullopt;
}

bool may_be_media(const MediaFilter& filter, std::string_view name) {
  switch (filter.strategy) {
    case MediaStrategy::kExtension:
      return media_kind_of_name(name).has_value();
    case MediaStrategy::kHeader:
      return true;
    case MediaStrategy::kGlob:
      return std::any_of(
          filter.patterns.begin(), filter.patterns.end(),
          [name](const std::string& pattern) { return fits_pattern(name, pattern); });
  }
  return false;
}

std::optional<MediaKind> media_kind_of(const MediaFilter& filter, std::string_view name,
                                       ByteView beginning) {
  if (!may_be_media(filter, name)) {
    return std::nullopt;
  }
  const std::optional<MediaKind> by_name = media_kind_of_name(name);
  if (filter.strategy == MediaStrategy::kExtension) {
    return by_name;
  }
  const std::optional<MediaKind> by_bytes = media_kind_of_bytes(beginning);
  return by_bytes ? by_bytes : by_name;
}

}  // namespace energon
