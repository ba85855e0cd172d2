#include "io/tar/member_name.h"

#include <cstddef>

namespace energon {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// Python's re.match(r"__[^/]*__($|/)", name), where $ also matches before a newline at the end.
bool is_dunder(std::string_view name) {
  if (!name.starts_with("__")) {
    return false;
  }
  const std::size_t slash = name.find('/');
  std::string_view first = name.substr(0, slash);
  if (slash == kNone && first.ends_with('\n') && !first.ends_with("__")) {
    first.remove_suffix(1);
  }
  return first.size() >= 4 && first.ends_with("__");
}

bool is_macos_litter(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('/') + 1);
  return last.starts_with("._") || last == ".DS_Store";
}

// Fast path, in one pass, for names without a newline, a hidden last component or a leading "__".
// Returns false for other names.
bool split_usual_name(std::string_view name, std::optional<MemberName>& result) {
  std::size_t begin = 0;  // start of the last component
  std::size_t dot = kNone;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '/') {
      begin = i + 1;
      dot = kNone;
    } else if (name[i] == '.' && dot == kNone) {
      dot = i;
    } else if (name[i] == '\n') {
      return false;
    }
  }
  if (dot == begin || name.starts_with("__")) {
    return false;
  }
  result.reset();
  if (dot != kNone) {
    result = MemberName{name.substr(0, dot), name.substr(dot + 1)};
  }
  return true;
}

}  // namespace

// Python's re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name). Written out: the first group begins with
// the longest folder prefix that still lets the rest match, and '.' does not match a newline.
std::optional<MemberName> split_member_name(std::string_view name) {
  if (std::optional<MemberName> usual; split_usual_name(name, usual)) {
    return usual;
  }
  if (is_dunder(name) || is_macos_litter(name)) {
    return std::nullopt;
  }
  const std::size_t slash = name.substr(0, name.find('\n')).rfind('/');
  const std::size_t begin = slash == kNone ? 0 : slash + 1;
  const std::size_t dot = name.find('.', begin);
  if (dot == kNone || name.find('/', dot) != kNone) {
    return std::nullopt;
  }
  if (dot == begin) {
    // A hidden file. The regex falls back to a shorter prefix, and [^.]+ takes the last folder with
    // its slash, which must then be free of dots.
    if (slash == kNone) {
      return std::nullopt;
    }
    const std::size_t outer = slash == 0 ? kNone : name.rfind('/', slash - 1);
    if (name.find('.', outer == kNone ? 0 : outer + 1) != dot) {
      return std::nullopt;
    }
  }
  return MemberName{name.substr(0, dot), name.substr(dot + 1)};
}

std::optional<std::string_view> part_of_key(std::string_view name, std::string_view key) {
  const bool is_usual = !key.empty() && key.back() != '/' && !key.starts_with("__");
  if (!is_usual || name.size() <= key.size() || name[key.size()] != '.' || !name.starts_with(key)) {
    return std::nullopt;
  }
  const std::string_view part = name.substr(key.size() + 1);
  return part.find('/') == kNone ? std::optional(part) : std::nullopt;
}

}  // namespace energon
