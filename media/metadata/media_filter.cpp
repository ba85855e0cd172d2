#include "media/metadata/media_filter.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include <fmt/format.h>

#include "io/error.h"
#include "media/av/av_container.h"
#include "media/image/image_decoder.h"

namespace energon {

// --- Patterns of names ---

namespace {

// The size of the first character of `text`, which must not be empty.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  for (std::size_t i = 1; i < size; ++i) {
    if (i >= text.size() || (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      return 1;
    }
  }
  return size;
}

std::string_view take_character(std::string_view& text) {
  const std::string_view character = text.substr(0, character_bytes(text));
  text.remove_prefix(character.size());
  return character;
}

// Whether `set`, the text between brackets, contains the character. Characters are ordered by their
// bytes in UTF-8.
bool is_in_set(std::string_view character, std::string_view set) {
  const bool is_negated = set.starts_with('!');
  set.remove_prefix(is_negated ? 1 : 0);
  bool found = false;
  while (!set.empty()) {
    const std::string_view first = take_character(set);
    if (set.size() > 1 && set.front() == '-') {
      set.remove_prefix(1);
      const std::string_view last = take_character(set);
      found = found || (first <= character && character <= last);
    } else {
      found = found || first == character;
    }
  }
  return found != is_negated;
}

// The end of the set at the beginning of `pattern`; nullopt if the set is not closed.
std::optional<std::size_t> end_of_set(std::string_view pattern) {
  std::size_t at = 1;
  at += at < pattern.size() && pattern[at] == '!' ? 1 : 0;
  at += at < pattern.size() && pattern[at] == ']' ? 1 : 0;  // a leading ']' belongs to the set
  const std::size_t end = pattern.find(']', at);
  return end == std::string_view::npos ? std::nullopt : std::optional(end);
}

// Takes one character from both; false if it does not match. Requires: neither is empty.
bool take_fitting(std::string_view& name, std::string_view& pattern) {
  if (pattern.front() == '?') {
    pattern.remove_prefix(1);
    take_character(name);
    return true;
  }
  if (const auto end = pattern.front() == '[' ? end_of_set(pattern) : std::nullopt) {
    const std::string_view set = pattern.substr(1, *end - 1);
    pattern.remove_prefix(*end + 1);
    return is_in_set(take_character(name), set);
  }
  return take_character(pattern) == take_character(name);
}

}  // namespace

bool fits_pattern(std::string_view name, std::string_view pattern) {
  // The pattern after the last star, and the rest of the name that the star has not taken.
  std::optional<std::string_view> after_star;
  std::string_view rest;
  while (true) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      after_star = pattern;
      rest = name;
    } else if (name.empty()) {
      return pattern.empty();
    } else if (pattern.empty() || !take_fitting(name, pattern)) {
      if (!after_star || rest.empty()) {
        return false;
      }
      take_character(rest);  // the star takes one more
      name = rest;
      pattern = *after_star;
    }
  }
}

// --- The filter ---

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

// Whether tags or a layer 3 frame are at the beginning.
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
                "a media filter by patterns needs patterns that are not empty, such as "
                "*.jpg,*.png");
  }
  if (!is_glob && !filter.patterns.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a media filter by {} must not have patterns, found {}",
                            lower_case(to_string(filter.strategy)), filter.patterns.size()));
  }
}

std::optional<MediaKind> media_kind_of_name(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);  // 0 if npos
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
  // Images first, because AVIF and HEIC use the MP4 container.
  if (image_format_of(beginning) || !foreign_image_format(beginning).empty()) {
    return MediaKind::kImage;
  }
  if (recognize_av_container(beginning) != AvContainer::kOther || is_mp3(beginning)) {
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
