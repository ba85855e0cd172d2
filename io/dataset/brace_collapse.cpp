#include "io/dataset/brace_collapse.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

namespace energon {
namespace {

// A name cut into runs of digits (odd positions) and what is between them (even positions).
std::vector<std::string> cut_at_numbers(std::string_view name) {
  std::vector<std::string> pieces(1);
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (digit != (pieces.size() % 2 == 0)) {
      pieces.emplace_back();
    }
    pieces.back() += c;
  }
  return pieces;
}

// Whether `next` is `number` + 1 with as many digits.
bool is_successor(std::string number, const std::string& next) {
  for (std::size_t i = number.size(); i-- > 0;) {
    if (number[i] != '9') {
      ++number[i];
      return number == next;
    }
    number[i] = '0';
  }
  return false;  // all nines: one digit more
}

// The only piece in which `next` differs from `previous`, if it is a number that grew by one.
std::optional<std::size_t> growing_piece(const std::vector<std::string>& previous,
                                         const std::vector<std::string>& next) {
  if (previous.size() != next.size()) {
    return std::nullopt;
  }
  std::optional<std::size_t> result;
  for (std::size_t i = 0; i < previous.size(); ++i) {
    if (previous[i] == next[i]) {
      continue;
    }
    if (result || i % 2 == 0 || !is_successor(previous[i], next[i])) {
      return std::nullopt;
    }
    result = i;
  }
  return result;
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '{' || c == '}' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
}

}  // namespace

std::vector<std::string> collapse_names(std::span<const std::string> names) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::vector<std::string> first = cut_at_numbers(names[begin]);
    std::vector<std::string> last = first;
    std::optional<std::size_t> slot;
    std::size_t end = begin + 1;
    for (; end < names.size(); ++end) {
      std::vector<std::string> next = cut_at_numbers(names[end]);
      const auto growing = growing_piece(last, next);
      if (!growing || (slot && *slot != *growing)) {
        break;
      }
      slot = growing;
      last = std::move(next);
    }
    std::string text;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (i == slot) {
        text += fmt::format("{{{}..{}}}", first[i], last[i]);
      } else {
        append_escaped(text, first[i]);
      }
    }
    result.push_back(std::move(text));
    begin = end;
  }
  return result;
}

}  // namespace energon
