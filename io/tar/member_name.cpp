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

}  // namespace

// Python's re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name). Written out: the first group begins with
// the longest folder prefix that still lets the rest match, and '.' does not match a newline.
std::optional<MemberName> split_member_name(std::string_view name) {
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

}  // namespace energon
