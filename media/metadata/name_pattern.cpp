#include "media/metadata/name_pattern.h"

#include <cstddef>
#include <optional>

namespace energon {
namespace {

// Bytes of the character at the front of `text`, which is not empty.
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

// What stands between brackets. The order of characters is that of their bytes in UTF-8.
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

// The end of the set that begins at the front of `pattern`; nothing if it is not closed.
std::optional<std::size_t> end_of_set(std::string_view pattern) {
  std::size_t at = 1;
  at += at < pattern.size() && pattern[at] == '!' ? 1 : 0;
  at += at < pattern.size() && pattern[at] == ']' ? 1 : 0;  // one at the front is of the set
  const std::size_t end = pattern.find(']', at);
  return end == std::string_view::npos ? std::nullopt : std::optional(end);
}

// Takes one character from both; false if it does not fit. Requires: neither is empty.
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
  // Where the last star stood, and the rest of the name that it has not taken.
  std::optional<std::string_view> behind_star;
  std::string_view rest;
  while (true) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      behind_star = pattern;
      rest = name;
    } else if (name.empty()) {
      return pattern.empty();
    } else if (pattern.empty() || !take_fitting(name, pattern)) {
      if (!behind_star || rest.empty()) {
        return false;
      }
      take_character(rest);  // the star takes one more
      name = rest;
      pattern = *behind_star;
    }
  }
}

}  // namespace energon
